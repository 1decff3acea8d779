import CLibcurl
internal import HTTPCore
import Platform

/// A connection probe that the engine runs.
final class ConnectionProbe: @unchecked Sendable {
    // Sendable: the continuation is set before the probe is posted, which the mailbox's lock orders. After that only
    // the engine's thread touches it.

    /// Carries the target, timeouts and proxy; no request is sent.
    let transfer: Transfer
    let options: ConnectionOptions
    var handle: EasyHandle?
    var isCancelled = false
    var continuation: UnsafeContinuation<ConnectionReport, Never>?

    init(_ transfer: Transfer, _ options: ConnectionOptions) {
        self.transfer = transfer
        self.options = options
    }

    /// Delivers the report, once.
    func finish(_ report: ConnectionReport) {
        continuation?.resume(returning: report)
        continuation = nil
    }
}

/// Runs connection probes on the engine's thread.
final class ProbeRunner {
    private unowned let engine: Engine
    let multi: ServiceMulti
    private var running: [ConnectionProbe] = []

    init(engine: Engine, _ outer: EventQueue) {
        self.engine = engine
        multi = ServiceMulti(outer)
    }

    deinit { end() }

    func start(_ probe: ConnectionProbe) {
        if probe.isCancelled { return probe.finish(ConnectionReport(error: EngineFailure.cancelled)) }
        let now = MonotonicTime.now
        _ = probe.transfer.machine.submitted(nil, now)
        _ = probe.transfer.machine.started(now)
        guard let handle = EasyHandle(engine: engine, slot: -1, hasLargeBuffer: false) else {
            return probe.finish(ConnectionReport(error: EngineFailure.noResources("memory for a probe")))
        }
        do throws(NetworkError) {
            try handle.prepare(for: probe.transfer)
            try handle.connectOnly(probe.options)
            try multi.add(handle)
        } catch {
            return probe.finish(ConnectionReport(error: error))
        }
        probe.handle = handle
        running.append(probe)
    }

    /// Cancels a probe, possibly before it is started.
    func cancel(_ probe: ConnectionProbe) {
        probe.isCancelled = true
        guard probe.handle != nil else { return }
        remove(probe)
        probe.finish(ConnectionReport(error: EngineFailure.cancelled))
    }

    func turn(_ now: MonotonicTime) {
        multi.turn(now) { curl, result in
            guard let probe = running.first(where: { $0.handle?.curl == curl }), let handle = probe.handle else {
                return
            }
            let report = handle.report(on: probe, result, now)
            remove(probe)
            probe.finish(report)
        }
    }

    func end() {
        for probe in running {
            remove(probe)
            probe.finish(ConnectionReport(error: EngineFailure.shutDown))
        }
        multi.end()
    }

    private func remove(_ probe: ConnectionProbe) {
        guard let handle = probe.handle else { return }
        probe.handle = nil
        running.removeAll { $0 === probe }
        multi.remove(handle)
    }
}

extension EasyHandle {
    /// Changes a handle prepared for a request into one that only connects.
    func connectOnly(_ options: ConnectionOptions) throws(NetworkError) {
        resumesSessions = false
        var settings: [(CURLoption, Int)] = [
            (CURLOPT_CONNECT_ONLY, 1), (CURLOPT_FRESH_CONNECT, 1), (CURLOPT_FORBID_REUSE, 1),
            // The probe reports the current state, so neither cached addresses nor TLS sessions are used.
            (CURLOPT_DNS_CACHE_TIMEOUT, 0), (CURLOPT_SSL_SESSIONID_CACHE, 0), (CURLOPT_CERTINFO, 1),
            // With HTTP/2, libcurl would send HTTP/2's connection preface.
            (CURLOPT_HTTP_VERSION, Int(CURL_HTTP_VERSION_1_1)),
        ]
        if !options.verifiesCertificate { settings += [(CURLOPT_SSL_VERIFYPEER, 0), (CURLOPT_SSL_VERIFYHOST, 0)] }
        try apply(settings)
    }

    /// Changes a handle prepared for a request into one whose connection carries bytes of another protocol.
    func connectForBytes() throws(NetworkError) {
        try apply([
            (CURLOPT_CONNECT_ONLY, 1), (CURLOPT_FRESH_CONNECT, 1), (CURLOPT_HTTPPROXYTUNNEL, 1),
            // A server that failed may be replaced by one at another address.
            (CURLOPT_DNS_CACHE_TIMEOUT, 0),
            // The protocol is not HTTP. With HTTP/2, libcurl would send HTTP/2's connection preface.
            (CURLOPT_HTTP_VERSION, Int(CURL_HTTP_VERSION_1_1)), (CURLOPT_SSL_ENABLE_ALPN, 0),
        ])
    }

    private func apply(_ settings: [(CURLoption, Int)]) throws(NetworkError) {
        for (option, value) in settings {
            let code = lat_setopt_long(curl, option, value)
            if code != CURLE_OK { throw EngineFailure.refusedOption(option, code) }
        }
    }

    /// Returns the report on a finished probe. Called before the handle leaves the multi handle.
    func report(on probe: ConnectionProbe, _ result: CURLcode, _ now: MonotonicTime) -> ConnectionReport {
        let timings = timings(of: probe.transfer, isOver: true)
        var report = ConnectionReport()
        report.timings = timings
        report.address = text(CURLINFO_PRIMARY_IP)
        report.port = long(CURLINFO_PRIMARY_PORT)
        report.localAddress = text(CURLINFO_LOCAL_IP)
        report.certificates = certificates
        // libcurl's message names the host it could not reach. If that is the target, no proxy was used.
        let isDirect = errorText.contains(" \(probe.transfer.target.hostAndPortText)")
        report.proxy = isDirect ? nil : probe.transfer.plan.proxy.map { URLParts.redacted($0.url) }
        if result != CURLE_OK {
            report.error = EngineFailure.describe(
                result, handle: self, transfer: probe.transfer, timings: timings, now: now)
            report.systemError = Int32(truncatingIfNeeded: long(CURLINFO_OS_ERRNO))
            report.proxyVerdict = ProxyFailure(long(CURLINFO_PROXY_ERROR))
            report.isResolved = offset(CURLINFO_NAMELOOKUP_TIME_T) > 0
        }
        return report
    }

    /// The server's certificates in the order sent, its own first.
    private var certificates: [CertificateInfo] {
        var chain: UnsafeMutablePointer<curl_certinfo>?
        guard lat_getinfo_certificates(curl, &chain) == CURLE_OK, let chain = chain?.pointee,
            let lists = chain.certinfo
        else { return [] }
        return (0..<max(0, Int(chain.num_of_certs))).map { index in
            var lines: [String] = []
            var item = lists[index]
            while let current = item?.pointee {
                if let data = current.data { lines.append(String(cString: data)) }
                item = current.next
            }
            return CertificateInfo(lines)
        }
    }
}

extension ProxyFailure {
    /// Converts a `CURLproxycode`; `nil` for `CURLPX_OK`.
    fileprivate init?(_ code: Int) {
        switch CURLproxycode(UInt32(truncatingIfNeeded: code)) {
        case CURLPX_OK: return nil
        case CURLPX_RESOLVE_HOST: self = .nameNotFound
        case CURLPX_REPLY_CONNECTION_REFUSED: self = .refused
        case CURLPX_REPLY_HOST_UNREACHABLE, CURLPX_REPLY_NETWORK_UNREACHABLE: self = .unreachable
        case CURLPX_REPLY_TTL_EXPIRED: self = .expired
        default: self = .failed
        }
    }
}

extension Target {
    /// Host and port in the form of libcurl's messages: `example.org port 443`.
    fileprivate var hostAndPortText: String {
        let rest = origin.drop { $0 != "/" }.dropFirst(2)
        guard let colon = rest.lastIndex(of: ":") else { return String(rest) }
        // The messages have no zone.
        let host = rest[..<colon].prefix { $0 != "%" }.filter { $0 != "[" && $0 != "]" }
        return "\(host) port \(rest[rest.index(after: colon)...])"
    }
}
