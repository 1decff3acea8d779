import CLibcurl
internal import HTTPCore
import Platform

/// Runs connection probes (`CURLOPT_CONNECT_ONLY`) on the engine's thread.
///
/// Probes have a multi handle of their own. In the transfers' handle they would count towards a host's connections,
/// push an idle one out of the pool, or wait for a free one. The engine's epoll watches the runner's epoll descriptor.
final class ProbeRunner {
    /// The runner's epoll descriptor, readable when a probe's socket has an event; -1 when there is none.
    let descriptor: CInt
    /// When libcurl's timer expires.
    private(set) var due = MonotonicTime.distantFuture

    private unowned let engine: Engine
    /// `nil` when the system had no descriptor left, or the runner has ended.
    private var events: EventQueue?
    private var multi: UnsafeMutableRawPointer?
    private var running: [ConnectionProbe] = []
    private var watched: Set<CInt> = []
    private var now = MonotonicTime.now

    init(engine: Engine, _ outer: EventQueue) {
        self.engine = engine
        events = EventQueue(capacity: 32)
        descriptor = events?.descriptor ?? -1
        if let events { outer.watch(events.descriptor, for: .readable) }
    }

    deinit { end() }

    // MARK: Probes

    func start(_ probe: ConnectionProbe) {
        if probe.isCancelled { return probe.finish(ConnectionReport(error: EngineFailure.cancelled)) }
        now = .now
        _ = probe.transfer.machine.submitted(nil, now)
        _ = probe.transfer.machine.started(now)
        guard let multi = makeMulti(), let handle = EasyHandle(engine: engine, slot: -1, hasLargeBuffer: false) else {
            return probe.finish(ConnectionReport(error: EngineFailure.noResources("memory for a probe")))
        }
        do throws(NetworkError) {
            try handle.prepare(for: probe.transfer)
            try handle.connectOnly(probe.options)
            let code = curl_multi_add_handle(multi, handle.curl)
            if code != CURLM_OK { throw EngineFailure.multi(code) }
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
        guard let multi, let events else { return }
        self.now = now
        var left: CInt = 0
        for index in 0..<events.wait(milliseconds: 0) {
            let (token, bits) = events[index]
            let socket = CInt(truncatingIfNeeded: token)
            guard watched.contains(socket) else { continue }
            curl_multi_socket_action(multi, socket, bits.curlSelect, &left)
        }
        if due <= now {
            due = .distantFuture
            curl_multi_socket_action(multi, CURL_SOCKET_TIMEOUT, 0, &left)
        }
        while let message = curl_multi_info_read(multi, &left) {
            guard message.pointee.msg == CURLMSG_DONE, let curl = message.pointee.easy_handle else { continue }
            let result = lat_message_result(message)
            guard let probe = running.first(where: { $0.handle?.curl == curl }), let handle = probe.handle else {
                continue
            }
            let report = handle.report(on: probe, result, now)
            remove(probe)
            probe.finish(report)
        }
    }

    /// Ends every probe and closes every descriptor.
    func end() {
        for probe in running {
            remove(probe)
            probe.finish(ConnectionReport(error: EngineFailure.shutDown))
        }
        if let multi { curl_multi_cleanup(multi) }
        multi = nil
        events = nil
        due = .distantFuture
    }

    /// Removing the handle closes its connection, which libcurl otherwise leaves open for the application.
    private func remove(_ probe: ConnectionProbe) {
        guard let handle = probe.handle, let multi else { return }
        probe.handle = nil
        running.removeAll { $0 === probe }
        curl_multi_remove_handle(multi, handle.curl)
        handle.transfer = nil
    }

    // MARK: libcurl's callbacks

    private func makeMulti() -> UnsafeMutableRawPointer? {
        if let multi { return multi }
        guard events != nil, let multi = curl_multi_init() else { return nil }
        let context = Unmanaged.passUnretained(self).toOpaque()
        _ = lat_multi_setopt_socket(multi, probeSocketCallback)
        _ = lat_multi_setopt_pointer(multi, CURLMOPT_SOCKETDATA, context)
        _ = lat_multi_setopt_timer(multi, probeTimerCallback)
        _ = lat_multi_setopt_pointer(multi, CURLMOPT_TIMERDATA, context)
        self.multi = multi
        return multi
    }

    static func from(_ context: UnsafeMutableRawPointer) -> ProbeRunner {
        Unmanaged<ProbeRunner>.fromOpaque(context).takeUnretainedValue()
    }

    func watch(_ socket: CInt, _ what: CInt) {
        let wanted = EventQueue.Events(pollingFor: what)
        if wanted.isEmpty {
            watched.remove(socket)
            events?.forget(socket)
        } else {
            events?.watch(socket, for: wanted, isWatched: !watched.insert(socket).inserted)
        }
    }

    func setTimer(milliseconds: Int) {
        due = milliseconds < 0 ? .distantFuture : milliseconds == 0 ? now : now + Int64(milliseconds)
    }
}

private let probeSocketCallback: curl_socket_callback = { _, descriptor, what, context, _ in
    guard let context else { return 0 }
    ProbeRunner.from(context).watch(descriptor, what)
    return 0
}

private let probeTimerCallback: curl_multi_timer_callback = { _, milliseconds, context in
    guard let context else { return 0 }
    ProbeRunner.from(context).setTimer(milliseconds: milliseconds)
    return 0
}
