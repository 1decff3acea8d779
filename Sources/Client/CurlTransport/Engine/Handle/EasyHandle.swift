import CLibcurl
import FoundationEssentials
import Glibc
internal import HTTPCore

/// A libcurl easy handle, used for one transfer after the other.
///
/// It remembers its options and sets only those that differ for the next transfer. After a transfer with unusual
/// settings it is reset. Only the engine's thread uses it, so its state needs no run-time exclusivity checks. It is
/// never freed while it is in the multi handle.
final class EasyHandle: CallbackContext {
    @exclusivity(unchecked) private(set) var curl: UnsafeMutableRawPointer
    /// Its index in the pool; -1 for the handle of a byte connection or a probe.
    let slot: Int
    var isPooled: Bool { slot >= 0 }
    let hasLargeBuffer: Bool
    /// The multi handle that it is in, or was in last.
    @exclusivity(unchecked) var multi: UnsafeMutableRawPointer
    /// The engine owns its handles and outlives them.
    unowned(unsafe) let engine: Engine
    @exclusivity(unchecked) var transfer: Transfer?

    let errorBuffer: UnsafeMutablePointer<CChar>
    @exclusivity(unchecked) private var applied = Applied()
    /// The TLS settings of the transfer that it was last prepared for; the engine's before the first.
    @exclusivity(unchecked) private(set) var tls: TLSMaterial
    /// The handshake of the connection opened for this transfer; `nil` without TLS, on a reused connection, and with a
    /// TLS library other than OpenSSL.
    @exclusivity(unchecked) var handshake: TLSHandshake?
    /// Whether the proxy's handshake has begun on the connection that is being opened.
    @exclusivity(unchecked) var hasProxyHandshake = false
    /// Whether a connection is being opened, and whether its proxy's last answer was an interim one.
    @exclusivity(unchecked) var opensTunnel = false
    @exclusivity(unchecked) var hasInterimAnswer = false
    /// How many challenges the server sent in this transfer; counted only with Digest credentials.
    @exclusivity(unchecked) var challengeCount = 0
    @exclusivity(unchecked) var resumesSessions = true
    @exclusivity(unchecked) private var headerList: UnsafeMutablePointer<curl_slist>?
    @exclusivity(unchecked) var resolveList: UnsafeMutablePointer<curl_slist>?
    @exclusivity(unchecked) var connectToList: UnsafeMutablePointer<curl_slist>?
    @exclusivity(unchecked) private var alternativeList: UnsafeMutablePointer<curl_slist>?

    /// What libcurl is set to besides the base options. A reset handle has the defaults.
    private struct Applied {
        var target: Target?
        /// The index of the interface for an IPv6 address with a zone; 0 for none.
        var interface = 0
        var waitsForMultiplexing = false
        var timeout: Int64 = 0
        var connectTimeout: Int64 = 0
        /// Whether the debug callback gets libcurl's log.
        var logs = false
        var version = VersionChoice.automatic.value
        var proxy: ProxySettings.Proxy?
        var pins: String?
        var cookies: String?
        var shape = Shape.get
        var customMethod: String?
        var headerLines: [String] = []
        var ignoresLength = false
        /// Whether it was made to open a connection, which only a reset undoes.
        var opensConnection = false
        /// The first option that libcurl refused. Until the next reset, no transfer may use the handle.
        var firstFailure: (option: CURLoption, code: CURLcode)?
    }

    /// The kind of request that libcurl is set up for.
    private enum Shape {
        case get
        case head
        case bytes
        case upload
    }

    init?(engine: Engine, slot: Int, hasLargeBuffer: Bool) {
        guard let curl = curl_easy_init() else { return nil }
        self.curl = curl
        self.engine = engine
        multi = engine.multi
        tls = engine.tls
        self.slot = slot
        self.hasLargeBuffer = hasLargeBuffer
        errorBuffer = .allocate(capacity: Int(CURL_ERROR_SIZE))
        errorBuffer.initialize(repeating: 0, count: Int(CURL_ERROR_SIZE))
        setBaseOptions()
    }

    deinit {
        curl_easy_cleanup(curl)
        curl_slist_free_all(headerList)
        curl_slist_free_all(resolveList)
        curl_slist_free_all(connectToList)
        curl_slist_free_all(alternativeList)
        errorBuffer.deallocate()
    }

    /// Returns the handle that owns a handle of libcurl.
    static func of(_ curl: UnsafeMutableRawPointer) -> EasyHandle? {
        var context: UnsafePointer<CChar>?
        guard lat_getinfo_string(curl, CURLINFO_PRIVATE, &context) == CURLE_OK, let context else { return nil }
        return from(UnsafeMutableRawPointer(mutating: context))
    }

    /// Whether the handle must be replaced instead of reused. While the connection of an ended transfer carries other
    /// HTTP/2 streams, libcurl 7.88 keeps state on the handle: a stream's refusal, which makes libcurl resend the next
    /// request; bytes received while paused, which libcurl delivers with the next body; a buffer of another size.
    @exclusivity(unchecked) var isSpent = false

    /// libcurl's description of the last failure.
    var errorText: String { String(cString: errorBuffer) }

    // MARK: Settings

    func set(_ option: CURLoption, _ value: Int) {
        note(lat_setopt_long(curl, option, value), option)
    }

    func set(_ option: CURLoption, _ value: Int64) {
        note(lat_setopt_off(curl, option, curl_off_t(value)), option)
    }

    func set(_ option: CURLoption, _ value: String?) {
        note(lat_setopt_string(curl, option, value), option)
    }

    func set(_ option: CURLoption, pointer: UnsafeRawPointer?) {
        note(lat_setopt_pointer(curl, option, pointer), option)
    }

    func note(_ code: CURLcode, _ option: CURLoption) {
        if code != CURLE_OK, applied.firstFailure == nil { applied.firstFailure = (option, code) }
    }

    /// Sets the handle up for a transfer. Throws the first error that libcurl returned for an option. Without that option,
    /// a pin for example, nothing may be sent.
    func prepare(for transfer: Transfer) throws(NetworkError) {
        self.transfer = transfer
        let plan = transfer.plan
        let tls = plan.tls ?? engine.tls
        if self.tls !== tls {
            self.tls = tls
            curl_easy_reset(curl)
            setAllOptions()
        }
        setTarget(transfer.target)
        setMethodAndBody(transfer.request.method, plan.body)
        setHeaderLines(of: transfer)
        setTimeout(plan.timeout)
        if Self.update(&applied.connectTimeout, plan.connectTimeout) {
            set(CURLOPT_CONNECTTIMEOUT_MS, Int(plan.connectTimeout))
        }
        if Self.update(&applied.logs, transfer.needsLog) {
            set(CURLOPT_VERBOSE, applied.logs ? 1 : 0)
        }
        if Self.update(&applied.version, plan.version.value) { set(CURLOPT_HTTP_VERSION, plan.version.value) }
        if Self.update(&applied.proxy, plan.proxy) { set(CURLOPT_PROXY, plan.proxy?.url ?? "") }
        if Self.update(&applied.pins, plan.pins) { set(CURLOPT_PINNEDPUBLICKEY, plan.pins) }
        if let cookies = engine.cookies { setCookies(cookies.field(for: transfer)) }
        if transfer.progress != nil { reportProgress() }
        if plan.needsReset { setUnusualOptions(transfer) }
        if let alternative = plan.alternative { connect(to: alternative) }
        if let warmUp = plan.warmUp { setWarmUp(warmUp) }
        handshake = nil
        if let failure = applied.firstFailure {
            throw EngineFailure.refusedOption(failure.option, failure.code)
        }
    }

    /// Replaces a value. Returns whether it has changed.
    @inline(__always)
    private static func update<Value: Equatable>(_ value: inout Value, _ new: Value) -> Bool {
        guard value != new else { return false }
        value = new
        return true
    }

    private func setTimeout(_ timeout: Int64) {
        if Self.update(&applied.timeout, timeout) { set(CURLOPT_TIMEOUT_MS, Int(timeout)) }
    }

    private func connect(to alternative: AlternativeService) {
        curl_slist_free_all(alternativeList)
        // An empty host and an empty port match any URL.
        alternativeList = curl_slist_append(nil, "::\(alternative.host):\(alternative.port)")
        set(CURLOPT_CONNECT_TO, pointer: alternativeList)
    }

    static let largeBufferSize = overflowStalls ? 160 << 10 : 128 << 10
    /// libcurl before 8.1 may stall an HTTP/2 stream whose head or frame did not fit into its buffer at once: the rest
    /// waits until something else arrives on the connection. libcurl accepts heads of up to 128 KiB and reads 32 KiB at a
    /// time; both together fit into the large buffer.
    private static let overflowStalls = GlobalCurl.Old.overflowStalls

    /// Whether a transfer needs a large receive buffer: for a streamed body and, before libcurl 8.1, when HTTP/2 may
    /// carry it. Live connections are many and carry little.
    static func hasLargeBuffer(for transfer: Transfer) -> Bool {
        if transfer.pipe != nil, !transfer.plan.isLive { return true }
        let version = transfer.plan.version
        guard transfer.target.isSecure || version.hasPriorKnowledge else { return false }
        return overflowStalls && version != VersionChoice.http1
    }

    /// libcurl sends at most one buffer for each socket event. Its default buffer of 64 KiB would need many events.
    private static let uploadBufferSize = 512 << 10

    private func setTarget(_ target: Target) {
        // libcurl before 8.3 drops the zone when it copies a URL.
        let interface = target.zone.map { Int(UInt32($0) ?? if_nametoindex($0)) } ?? 0
        if Self.update(&applied.interface, interface) { set(CURLOPT_ADDRESS_SCOPE, interface) }
        guard applied.target !== target else { return }
        applied.target = target
        // libcurl 7.88 uses the text of the previous URL when it repeats a request, unless CURLOPT_URL is cleared
        // first.
        set(CURLOPT_URL, nil)
        set(CURLOPT_CURLU, pointer: UnsafeRawPointer(target.handle))
        // Over TLS the handshake of the first connection shows whether requests can share it. In clear text only the
        // first response shows that, and requests would wait for a slow server.
        if Self.update(&applied.waitsForMultiplexing, target.isSecure) {
            set(CURLOPT_PIPEWAIT, target.isSecure ? 1 : 0)
        }
    }

    private func setMethodAndBody(_ method: HTTPMethod, _ body: PreparedBody?) {
        switch body {
        case nil where method == .head:
            setShape(.head, custom: nil) { set(CURLOPT_NOBODY, 1) }
        case nil:
            setShape(.get, custom: method == .get ? nil : method.rawValue) { set(CURLOPT_HTTPGET, 1) }
        case .bytes(let data):
            setShape(.bytes, custom: method == .post ? nil : method.rawValue) { set(CURLOPT_POST, 1) }
            set(CURLOPT_POSTFIELDSIZE_LARGE, Int64(data.count))
            data.withUnsafeBytes { bytes in
                // A copy of at most `wholeBodyLimit` bytes, since `Data` does not promise a stable address.
                set(CURLOPT_COPYPOSTFIELDS, pointer: bytes.baseAddress ?? UnsafeRawPointer(errorBuffer))
            }
        case .source(let source):
            setShape(.upload, custom: method.rawValue) {
                // With the bytes of an earlier request, libcurl 7.88 does not rewind the source when it repeats this one.
                set(CURLOPT_POSTFIELDS, nil)
                set(CURLOPT_UPLOAD, 1)
            }
            set(CURLOPT_UPLOAD_BUFFERSIZE, Self.uploadBufferSize)
            set(CURLOPT_INFILESIZE_LARGE, source.length ?? -1)
            set(CURLOPT_READDATA, pointer: UnsafeRawPointer(Unmanaged.passUnretained(self).toOpaque()))
            set(CURLOPT_SEEKDATA, pointer: UnsafeRawPointer(Unmanaged.passUnretained(self).toOpaque()))
        }
    }

    private func setShape(_ shape: Shape, custom: String?, _ apply: () -> Void) {
        if Self.update(&applied.shape, shape) { apply() }
        if Self.update(&applied.customMethod, custom) { set(CURLOPT_CUSTOMREQUEST, custom) }
    }

    /// Sets whether libcurl reads the response to its end whatever its `Content-Length` says.
    func setIgnoresLength(_ ignoresLength: Bool) {
        if Self.update(&applied.ignoresLength, ignoresLength) {
            set(CURLOPT_IGNORE_CONTENT_LENGTH, ignoresLength ? 1 : 0)
        }
    }

    /// Sets the `Cookie` field of the next request, which may be the one that libcurl repeats with credentials.
    func setCookies(_ field: String?) {
        guard !applied.cookies.hasSameBytes(as: field) else { return }
        applied.cookies = field
        set(CURLOPT_COOKIE, field)
    }

    private func setHeaderLines(_ lines: [String]) {
        guard !applied.headerLines.hasSameBytes(as: lines) else { return }
        applied.headerLines = lines
        curl_slist_free_all(headerList)
        headerList = nil
        for line in lines { headerList = curl_slist_append(headerList, line) }
        set(CURLOPT_HTTPHEADER, pointer: headerList)
    }

    /// Sets the header lines of a transfer, without an expectation that the server has refused.
    func setHeaderLines(of transfer: Transfer, adding line: String? = nil) {
        var lines = transfer.plan.headerLines
        if transfer.machine.hasDroppedExpectation {
            lines = lines.filter { !$0.lowercased().hasPrefix("expect:") } + ["Expect:"]
        }
        if let line { lines.append(line) }
        setHeaderLines(lines)
    }

    /// Has libcurl report the progress of the transfer from now on.
    func reportProgress() { set(CURLOPT_NOPROGRESS, 0) }

    /// Whether a request needs a connection of its own: libcurl 7.88 fails with a framing error when it reuses a
    /// connection that was opened with HTTP/2 prior knowledge.
    static func needsNewConnection(_ version: VersionChoice.Choice) -> Bool {
        version.hasPriorKnowledge && GlobalCurl.Old.breaksPriorKnowledge
    }

    /// Sets options that only a reset of the handle removes.
    private func setUnusualOptions(_ transfer: Transfer) {
        let request = transfer.request
        setCredentials(of: transfer)
        if request.context.upgrades || request.context.opensConnection || Self.needsNewConnection(transfer.plan.version)
        {
            set(CURLOPT_FRESH_CONNECT, 1)
            set(CURLOPT_FORBID_REUSE, 1)
        }
        if let path = request.unixSocketPath { set(CURLOPT_UNIX_SOCKET_PATH, path) }
        if request.trailers != nil { setTrailers() }
        if request.context.upgrades {
            // A proxy that reads the request would not pass on what follows it.
            set(CURLOPT_HTTPPROXYTUNNEL, 1)
            set(CURLOPT_UPLOAD_BUFFERSIZE, 64 << 10)
        }
    }

    /// Has the transfer open a connection, whatever is in the pool.
    func openNewConnection() {
        applied.opensConnection = true
        set(CURLOPT_FRESH_CONNECT, 1)
    }

    /// Sets the handle up, like ``prepare(for:)``, to send a request again within the remaining time; after a failure, on
    /// a new connection.
    func prepareReplay(of transfer: Transfer, timeout left: Int64) throws(NetworkError) {
        if transfer.ownAnswers == 0 { set(CURLOPT_FRESH_CONNECT, 1) }
        try prepare(for: transfer)
        setTimeout(left)
    }

    /// Sets the handle up to begin its transfer again within the remaining times, with all other options as they are.
    func prepareAfterListing(timeout left: Int64, connectTimeout: Int64) {
        errorBuffer[0] = 0
        setTimeout(left)
        applied.connectTimeout = connectTimeout
        set(CURLOPT_CONNECTTIMEOUT_MS, Int(connectTimeout))
    }

    /// Replaces the libcurl handle. In libcurl 7.88, a reset does not clear the state of a handle that has sent
    /// trailers. With the next chunked body, such a handle writes to memory before its buffer.
    private func replace() {
        guard let fresh = curl_easy_init() else { return curl_easy_reset(curl) }
        curl_easy_cleanup(curl)
        curl = fresh
    }

    /// Makes libcurl free the bytes that arrived during a pause. While the connection carries other HTTP/2 streams, 7.88 never
    /// frees them, not even with the handle.
    func dropPausedBytes() {
        // Without a transfer, the write callback refuses the bytes.
        let transfer = self.transfer
        self.transfer = nil
        _ = curl_easy_pause(curl, CURLPAUSE_CONT)
        self.transfer = transfer
    }

    /// Makes the handle ready for another transfer, after it has left the multi handle.
    func finish() {
        guard let transfer else { return }
        self.transfer = nil
        errorBuffer[0] = 0
        // libcurl counts its repetitions until the handle is reset, and gives up after five.
        let wasRepeated = transfer.machine.attempts.repetitions > 0 || transfer.machine.attempts.replays > 0
        if wasRepeated || transfer.mayHoldBytes { isSpent = true }
        // libcurl may keep a Digest challenge on the handle, and answer it in the next request with credentials, even if
        // that request goes to another origin.
        let keepsChallenge = transfer.machine.status == 401 || transfer.machine.status == 407
        let isUnusual =
            transfer.plan.needsReset || transfer.progress != nil || applied.shape == .upload
            || wasRepeated || keepsChallenge
            || transfer.plan.alternative != nil || transfer.plan.warmUp != nil || applied.opensConnection
            || applied.firstFailure != nil
        guard isUnusual else { return }
        if transfer.request.trailers == nil { curl_easy_reset(curl) } else { replace() }
        setAllOptions()
    }

    /// Sets the base options and forgets all others, after a reset.
    private func setAllOptions() {
        curl_slist_free_all(headerList)
        headerList = nil
        applied = Applied()
        setBaseOptions()
    }
}
