import CLibcurl
import Cryptography
import FoundationEssentials
import Glibc
internal import HTTPCore
import Platform

/// The handshake of one TLS connection. It handles OpenSSL's callbacks, and records why a handshake fails, since
/// libcurl reports most failures with one error code. Later it records how the connection ends.
///
/// Retained by its `SSL_CTX`. Belongs to the engine's thread.
final class TLSHandshake: CallbackContext {
    /// Whether the server requested a client certificate.
    private(set) var wantsCertificate = false
    /// The last alert that the server sent (RFC 8446 §6.2); `nil` for none.
    private(set) var alert: UInt8?
    /// Whether the peer has said that it sends nothing more (`close_notify`, RFC 8446 §6.1).
    private(set) var isClosed = false
    /// Whether a record with data of the application has begun, and nothing of it has been decrypted: in TLS 1.3 OpenSSL tells
    /// that, before it the delivered bytes do.
    var isWithinRecord = false
    private let floods: FloodWatch
    /// The step of libcurl in which the last record arrived, how many have arrived in it, and the thread's time at the first
    /// look at it.
    private var step: UInt64 = 0
    private var recordCount = 0
    private var stepBegan: Int64?
    /// The server's own certificate, in DER; empty before it arrives, and for a compressed one (RFC 8879).
    private var certificateBytes: [UInt8] = []
    /// What the server's certificate says; `nil` when it has not arrived.
    var certificate: CertificateFacts? { certificateBytes.isEmpty ? nil : CertificateFacts(der: certificateBytes) }

    /// Why the certificates could not be checked for revocation, or which list revoked one; `nil` for neither.
    private(set) var revocationFault: String?
    /// What has to be filled for another attempt to succeed.
    private(set) var gap: RevocationGap?

    private let library: UnsafePointer<lat_openssl>
    private let revocation: RevocationCheck?
    /// Whether a request waits that can be sent again when lists have been fetched.
    private let canWait: Bool
    private let target: Target?
    /// The URL of the HTTPS proxy that is the peer; `nil` for the server of the URL.
    private let proxy: String?
    var isWithProxy: Bool { proxy != nil }
    /// Whether the server of the URL is the peer, not a proxy and not a server that looks up names.
    var isWithServer = false
    fileprivate let keyLog: TLSKeyLogFile?
    private let trust: CertificateStore?
    /// The cache of sessions; `nil` when sessions are not reused.
    private let sessions: TLSSessions?
    private var hasBegun = false

    /// Sets up the `SSL_CTX` of a connection.
    ///
    /// - Parameters:
    ///   - trust: The trusted certificates; `nil` when the server's certificate is not verified.
    ///   - revocation: How the verified certificates are checked for revocation; `nil` for not at all.
    ///   - canWait: Whether a request waits that can be sent again when lists have been fetched.
    /// - Returns: `nil` when memory is short; the context is then unusable.
    init?(
        context: UnsafeMutableRawPointer, library: UnsafePointer<lat_openssl>, target: Target?, proxy: String?,
        trust: CertificateStore?, revocation: RevocationCheck?, canWait: Bool, sessions: TLSSessions?,
        keyLog: TLSKeyLogFile?, floods: FloodWatch
    ) {
        self.floods = floods
        self.revocation = revocation
        self.canWait = canWait
        self.library = library
        self.target = target
        self.proxy = proxy
        self.trust = trust
        self.sessions = sessions
        self.keyLog = keyLog
        guard Self.index >= 0 else { return nil }
        let reference = Unmanaged.passRetained(self)
        guard library.pointee.SSL_CTX_set_ex_data(context, Self.index, reference.toOpaque()) == 1 else {
            reference.release()
            return nil
        }
        if let trust {
            guard library.pointee.X509_STORE_up_ref(trust.pointer) == 1 else { return nil }
            library.pointee.SSL_CTX_set_cert_store(context, trust.pointer)
        }
        if revocation != nil {
            library.pointee.SSL_CTX_set_cert_verify_callback(context, verifyCallback, reference.toOpaque())
        }
        library.pointee.SSL_CTX_set_msg_callback(context, messageCallback)
        // SSL_CTRL_SET_MSG_CALLBACK_ARG
        _ = library.pointee.SSL_CTX_ctrl(context, 16, 0, reference.toOpaque())
        // Replaces libcurl's callback, which writes to the file that SSLKEYLOGFILE names.
        library.pointee.SSL_CTX_set_keylog_callback(context, keyLog == nil ? nil : keyCallback)
        if let sessions {
            sessions.setTrust(trust)
            library.pointee.SSL_CTX_set_info_callback(context, stateCallback)
            library.pointee.SSL_CTX_sess_set_new_cb(context, sessionCallback)
            // Clears SSL_OP_NO_TICKET, which libcurl sets: without tickets many TLS 1.2 servers cannot resume.
            _ = library.pointee.SSL_CTX_clear_options(context, 1 << 14)
        }
    }

    /// The index at which every `SSL_CTX` of the process stores its handshake (`CRYPTO_EX_INDEX_SSL_CTX`); -1 for none.
    private static let index: CInt =
        OpenSSL.shared?.pointee.CRYPTO_get_ex_new_index(1, 0, nil, nil, nil, releaseCallback) ?? -1

    /// Returns the handshake of an `SSL`.
    static func of(_ ssl: UnsafeRawPointer?) -> TLSHandshake? {
        guard let ssl, let library = OpenSSL.shared?.pointee, let context = library.SSL_get_SSL_CTX(ssl),
            let pointer = library.SSL_CTX_get_ex_data(context, index)
        else { return nil }
        return from(pointer)
    }

    // MARK: Revocation

    /// Verifies the peer's chain as OpenSSL does by itself, and then checks it for revocation. Returns 1 to go on.
    fileprivate func verify(_ check: UnsafeMutableRawPointer) -> CInt {
        let openSSL = library.pointee
        let result = openSSL.X509_verify_cert(check)
        guard result == 1, let revocation else { return result }
        let chain = openSSL.X509_STORE_CTX_get0_chain(check)
        // Up to the first one that is trusted. Certificates after it do not count.
        let count = min(openSSL.OPENSSL_sk_num(chain), openSSL.X509_STORE_CTX_get_num_untrusted(check) + 1)
        let certificates = (0..<max(0, count)).map { index in
            openSSL.OPENSSL_sk_value(chain, index).map(der) ?? []
        }
        switch revocation.outcome(of: certificates, from: target?.origin ?? "", canWait: canWait) {
        case .accepted: return 1
        case .revoked(let reason):
            revocationFault = reason
            openSSL.X509_STORE_CTX_set_error(check, OpenSSL.revoked)
        case .unknown(let reason, let gap):
            (revocationFault, self.gap) = (reason, gap)
            openSSL.X509_STORE_CTX_set_error(check, OpenSSL.notChecked)
        }
        return 0
    }

    private func der(_ certificate: UnsafeMutableRawPointer) -> [UInt8] {
        let count = Int(library.pointee.i2d_X509(certificate, nil))
        guard count > 0 else { return [] }
        return [UInt8](unsafeUninitializedCapacity: count) { buffer, written in
            var start = buffer.baseAddress
            written = Int(max(0, library.pointee.i2d_X509(certificate, &start)))
        }
    }

    // MARK: OpenSSL's callbacks

    fileprivate func begin(_ ssl: UnsafeMutableRawPointer) {
        guard !hasBegun else { return }
        hasBegun = true
        sessions?.resume(ssl, with: peer(ssl))
    }

    fileprivate func received(type: CInt, _ bytes: UnsafeRawBufferPointer) {
        guard let first = bytes.first else { return }
        // A handshake message: CertificateRequest.
        if type == 22, first == 13 { wantsCertificate = true }
        if type == 22, first == 11, let bytes = Self.firstCertificate(bytes) { certificateBytes = Array(bytes) }
        guard type == 21, bytes.count >= 2 else { return }
        if bytes[1] == 0 { isClosed = true } else { alert = bytes[1] }
    }

    /// Records that a record begins, whose type is the first byte of its header.
    fileprivate func receivedRecord(_ ssl: UnsafeMutableRawPointer, type: UInt8?) {
        isWithinRecord = type == 23
        if step != floods.step { (step, recordCount, stepBegan) = (floods.step, 0, nil) }
        recordCount += 1
        guard recordCount % FloodWatch.interval == 0 else { return }
        let time = FloodWatch.threadTime
        guard let stepBegan else { return stepBegan = time }
        guard time - stepBegan > FloodWatch.limit, OpenSSL.choseHTTP2(ssl, library) else { return }
        // SSL_RECEIVED_SHUTDOWN: the next read finds the end of the connection, which is an error in HTTP/2.
        library.pointee.SSL_set_shutdown(ssl, 2)
        floods.origin = target?.origin
    }

    /// The first certificate of a Certificate message. Before the list, TLS 1.3 has a context, which is empty in the
    /// server's message (RFC 5246 §7.4.2, RFC 8446 §4.4.2).
    private static func firstCertificate(_ message: UnsafeRawBufferPointer) -> Slice<UnsafeRawBufferPointer>? {
        func number(_ start: Int) -> Int {
            guard start + 3 <= message.count else { return -1 }
            return Int(message[start]) << 16 | Int(message[start + 1]) << 8 | Int(message[start + 2])
        }
        for list in [4, 5] where number(list) == message.count - list - 3 {
            let start = list + 6
            let count = number(list + 3)
            return count > 0 && start + count <= message.count ? message[start..<start + count] : nil
        }
        return nil
    }

    /// Stores a copy of a session. OpenSSL invalidates the original (`SSL_CTX_remove_session`) when its connection is
    /// closed without `close_notify`, which is how libcurl 8 closes connections to proxies.
    fileprivate func keep(_ session: UnsafeMutableRawPointer, of ssl: UnsafeMutableRawPointer) {
        // The trust may have changed since the handshake began, and libcurl 8 checks the verification result only after
        // this callback.
        guard let sessions, sessions.trust === trust,
            trust == nil || library.pointee.SSL_get_verify_result(ssl) == 0,
            let copy = library.pointee.SSL_SESSION_dup(session)
        else { return }
        sessions.insert(copy, of: peer(ssl))
    }

    /// The peer of a handshake: the server of the URL, or its HTTPS proxy. Sessions of QUIC and TCP are kept apart; a QUIC
    /// connection has no BIO.
    private func peer(_ ssl: UnsafeMutableRawPointer) -> TLSSessions.Peer {
        // TLSEXT_NAMETYPE_host_name
        let name = library.pointee.SSL_get_servername(ssl, 0).map { String(cString: $0) } ?? ""
        if let proxy { return "\(proxy) \(name)" }
        return "\(target?.origin ?? "") \(name)\(library.pointee.SSL_get_rbio(ssl) == nil ? " QUIC" : "")"
    }
}

/// Ends connections whose server keeps libcurl busy.
///
/// While an HTTP/2 server sends frames that carry nothing (`PING`, `PRIORITY`, empty `DATA`), libcurl reads on and does not
/// return, so that no timeout and no other transfer of the engine would run. Only OpenSSL calls back in that time. The
/// processor's time counts, because on a loaded machine any step may take long. Belongs to the engine's thread.
final class FloodWatch {
    /// After how many records the clock is read.
    static let interval = 256
    /// The processor time that one step may take, in nanoseconds.
    static let limit: Int64 = 1_000_000_000

    /// The processor time of the calling thread, in nanoseconds.
    static var threadTime: Int64 { MonotonicTime.reading(CLOCK_THREAD_CPUTIME_ID).nanoseconds }

    /// Raised before each step of libcurl.
    var step: UInt64 = 1
    /// The origin whose connection was ended in this turn of the engine.
    var origin: String?
}

private let releaseCallback: lat_free_callback = { _, pointer, _, _, _, _ in
    if let pointer { Unmanaged<TLSHandshake>.fromOpaque(pointer).release() }
}

private let verifyCallback: lat_verify_callback = { check, handshake in
    handshake.map { TLSHandshake.from($0).verify(check) } ?? 0
}

private let messageCallback: lat_message_callback = { isWritten, _, type, bytes, count, ssl, context in
    guard isWritten == 0, let context else { return }
    let handshake = TLSHandshake.from(context)
    let bytes = UnsafeRawBufferPointer(start: bytes, count: count)
    switch type {
    // SSL3_RT_HEADER
    case 256: if let ssl { handshake.receivedRecord(ssl, type: bytes.first) }
    // SSL3_RT_INNER_CONTENT_TYPE
    case 257: handshake.isWithinRecord = false
    default: handshake.received(type: type, bytes)
    }
}

private let stateCallback: lat_state_callback = { ssl, place, _ in
    // SSL_CB_HANDSHAKE_START: the ClientHello is not written yet.
    guard place & 0x10 != 0, let ssl else { return }
    TLSHandshake.of(ssl)?.begin(UnsafeMutableRawPointer(mutating: ssl))
}

private let sessionCallback: lat_session_callback = { ssl, session in
    if let ssl, let session { TLSHandshake.of(ssl)?.keep(session, of: ssl) }
    // 0: this callback keeps no reference to the session, since it stores a copy.
    return 0
}

private let keyCallback: lat_key_callback = { ssl, line in
    if let line { TLSHandshake.of(ssl)?.keyLog?.append(line) }
}

/// The file that the secrets of TLS connections are appended to, in the NSS format (`CLIENT_RANDOM …`).
final class TLSKeyLogFile: Sendable {
    private let descriptor: CInt

    /// Opens the file of a setting; `nil` when the setting names none.
    static func opened(for setting: TLSConfiguration.KeyLog, warn: (String) -> Void) throws(NetworkError)
        -> TLSKeyLogFile?
    {
        let path: String
        let place: String
        switch setting {
        case .off: return nil
        case .environment:
            guard let value = ProcessInfo.processInfo.environment["SSLKEYLOGFILE"], !value.isEmpty else { return nil }
            (path, place) = (value, "tls.keyLog: the environment's SSLKEYLOGFILE")
        case .file(let value): (path, place) = (value, "tls.keyLog")
        }
        guard OpenSSL.shared != nil else {
            throw NetworkError(
                .unsupported,
                message: "tls.keyLog: this libcurl does not use OpenSSL 3; set .\(TLSConfiguration.KeyLog.off)")
        }
        let file = try TLSKeyLogFile(path, place)
        warn("the keys of all TLS connections are written to \(path): anyone with that file can decrypt the traffic")
        return file
    }

    private init(_ path: String, _ place: String) throws(NetworkError) {
        let descriptor = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0o600)
        guard descriptor >= 0 else { throw Self.unusable(path, place, SystemError().text) }
        var status = stat()
        guard fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG else {
            close(descriptor)
            throw Self.unusable(path, place, "it is not a regular file")
        }
        self.descriptor = descriptor
    }

    deinit { close(descriptor) }

    /// Appends a line in a single write, so that lines of several processes do not mix.
    func append(_ line: UnsafePointer<CChar>) {
        var bytes = Array(UnsafeBufferPointer(start: line, count: strlen(line)))
        bytes.append(CChar(UInt8(ascii: "\n")))
        _ = write(descriptor, bytes, bytes.count)
    }

    private static func unusable(_ path: String, _ place: String, _ reason: String) -> NetworkError {
        .invalidRequest(
            "\(place) \"\(path)\" cannot be written: \(reason); give the path of a file in a folder of this user")
    }
}
