extension NetworkError {
    // `scripts/docs --errors` makes the table of kinds in Documentation/Errors.md from these comments. The first
    // paragraph says when the kind occurs, and the one that begins with "Next step:" says what to do.

    /// A kind of failure.
    public enum Kind: Hashable, Sendable {
        /// The request or a setting is invalid: a method that is not a token, a URL that is malformed or not `http` or
        /// `https`, a line break in a field, parameters that do not encode, a limit that is not above zero, a file of
        /// settings that cannot be read. Nothing was sent.
        ///
        /// Next step: correct what the message names.
        case invalidRequest
        /// The table has no domain, server or environment of this name. Nothing was sent.
        ///
        /// Next step: write the name as the table has it; the message gives the nearest.
        case unknownName
        /// The name of the host could not be resolved.
        ///
        /// Next step: check the name for a typo, then the resolver of the machine.
        case dns
        /// No connection was established: refused, or unreachable.
        ///
        /// Next step: check that the server runs, and its port.
        case connect
        /// The TLS handshake failed.
        case tls(TLSFailure)
        /// A time limit was exceeded.
        case timeout(TimeoutPhase)
        /// The call was cancelled by its handle or by `cancelRequests`. Observers also get it for a stream
        /// whose body was released before its end.
        ///
        /// Next step: none; an async call whose Swift task was cancelled throws `CancellationError` instead.
        case cancelled
        /// The status is not 2xx or 304, or not one of ``RequestOptions/Values/acceptedStatuses``. For a download: a
        /// status without content to save. `send` never throws it.
        ///
        /// Next step: look at ``NetworkError/response``, which has status, fields and body.
        case httpStatus
        /// The response reports a failure in its content, by the envelope of the domain or the
        /// `successJudge`. The code is empty when it has none.
        ///
        /// Next step: look at `businessFailure`, which has code, message and data.
        case business(code: String)
        /// The content is not JSON, or does not fit the type. The path, such as `items[3].price`, is the
        /// place; empty for the whole content.
        ///
        /// Next step: compare the text of ``NetworkError/response`` with the type.
        case decoding(path: String)
        /// A redirect was not followed: there were too many hops or a loop, it led from `https` to `http` or to
        /// an address that is neither, the redirect handler refused it, or the body can be sent only once.
        ///
        /// Next step: raise `.follow(limit:)`, make the body in a closure, or get the redirect response with
        /// `.none`.
        case redirect
        /// The body is larger than `maxBodySize`, or than `maxDecompressionRatio` allows for its compressed
        /// size; a line, or what `collect(upTo:)` reads, is longer than its limit.
        ///
        /// Next step: raise the limit, or read the body with `stream`.
        case bodyTooLarge
        /// The connection closed before the response was complete, a compressed body ended before its coding did, or a
        /// pooled connection closed during a request that may already have taken effect.
        ///
        /// Next step: send it again if a second effect does no harm.
        case connectionLost
        /// The server sent something that is not HTTP or violates it, or a head that is too large.
        ///
        /// Next step: correct the server; the message says what it sent.
        case protocolViolation
        /// The proxy cannot be reached, asks for credentials (407), opens no tunnel or rejects the SOCKS request, or
        /// the TLS handshake with it fails.
        ///
        /// Next step: check the address and the credentials of the proxy.
        case proxy
        /// The address does not belong to the public internet, and the manager has `blocksPrivateAddresses`.
        /// Nothing was sent to it.
        ///
        /// Next step: name it in `allowedPrivateAddresses` if it is meant, or turn `blocksPrivateAddresses` off for a
        /// Unix domain socket.
        case addressBlocked(AddressRule)
        /// Nothing is stored for the request, and the policy `.cacheOnly` forbids the network; or the store
        /// could not do what `manager.cache` or `manager.values` was asked for.
        ///
        /// Next step: use another policy, or do what the message says.
        case cache
        /// A file or folder cannot be read or written: it is missing, not writable, full, damaged, or in use
        /// by another download. Also every failure of LATStorage.
        ///
        /// Next step: do what the message says; what a download has received is kept.
        case storage
        /// The body of the request could not be read to its end: a file that is missing (nothing was sent) or
        /// changed its length, a stream that threw, gave more or fewer bytes than announced, or is needed
        /// again and can be read only once.
        ///
        /// Next step: correct the file, or make the stream in a closure.
        case requestBody
        /// The content is not authentic: a sealed message was changed, cut short, repeated, or sealed with
        /// another key; the response to a sealed request is a success and not sealed; a download has another
        /// digest, or its content kept changing.
        /// The error contains nothing of a sealed message.
        ///
        /// Next step: look at keys, clocks, the expected digest, and the server.
        case integrity
        /// Code of the app threw: a provider, authenticator, signer, interceptor, redirect handler, resolver,
        /// link refresh or transport.
        ///
        /// Next step: look at ``NetworkError/underlying``, which is what it threw.
        case provider
        /// The call is simulated or replayed, and there is no fixture or recording of it.
        ///
        /// Next step: create one of the files that the message names, or record the call as it says.
        case simulation
        /// The libcurl or libcrypto that is loaded does not have what a setting asks for, or libcurl is older
        /// than 7.88.
        ///
        /// Next step: update the library, or leave the setting out; `lat doctor` shows what is there.
        case unsupported
        /// The token could not be renewed, or not within `refreshTimeout`. ``NetworkError/underlying`` is the
        /// reason.
        ///
        /// Next step: sign in again; try again later when the message says so.
        case authentication
        /// An equal request is running, and the policy for duplicates is `.reject`. Nothing was sent.
        ///
        /// Next step: wait for the other one, or allow duplicates.
        case duplicate
        /// The circuit breaker is open, because the host failed too often. Nothing was sent.
        ///
        /// Next step: wait; the message says when the host is tried again.
        case circuitOpen
        /// The manager was shut down before or during the call.
        ///
        /// Next step: make a new manager.
        case shutDown
        /// Any other failure.
        ///
        /// Next step: look at the message and ``NetworkError/curlCode``.
        case other
    }

    /// The reason why a TLS handshake failed.
    public enum TLSFailure: String, Hashable, Sendable, CaseIterable {
        /// The certificate has expired.
        ///
        /// Next step: renew it on the server, and check the clock of this machine.
        case expired
        /// The certificate is not valid yet.
        ///
        /// Next step: check the clocks of both machines.
        case notYetValid
        /// The certificate is for another host.
        ///
        /// Next step: use a name that is in the certificate.
        case wrongHost
        /// No trusted authority has signed the certificate.
        ///
        /// Next step: give its authority as `tls.caFile`, or have the server send its intermediate
        /// certificates.
        case untrusted
        /// The certificate is signed by itself.
        ///
        /// Next step: give it as `tls.caFile`.
        case selfSigned
        /// The certificate is revoked.
        ///
        /// Next step: get a new one for the server.
        case revoked
        /// The certificate could not be checked for revocation: the server sent no valid OCSP response, and
        /// `tls.requiresOCSPStapling` is on; or a revocation list is missing, expired or not signed by its authority, and
        /// `tls.revocation` is `hard`.
        ///
        /// Next step: have the server staple OCSP responses, or the revocation list renewed in time.
        case certificateStatus
        /// The server's key is not one of the pins.
        ///
        /// Next step: check whether a proxy intercepts the connection; when the server has a new key, add its pin.
        case pinMismatch
        /// The client's own certificate is missing, unreadable or rejected.
        ///
        /// Next step: give `tls.clientCertificate`, and check its password and authority.
        case clientCertificate
        /// Client and server have no protocol version or cipher in common.
        ///
        /// Next step: update the server, or lower `tls.minimumVersion`.
        case protocolVersion
        /// The handshake failed for another reason.
        ///
        /// Next step: look at the message; check that the port speaks TLS.
        case handshake
    }

    /// The phase of a call in which a time limit was exceeded.
    public enum TimeoutPhase: String, Hashable, Sendable, CaseIterable {
        /// No connection was established within `connectTimeout`: name look-up, TCP, TLS.
        ///
        /// Next step: raise it, or look for a firewall that drops packets.
        case connect
        /// Nothing was sent or received for `idleTimeout`.
        ///
        /// Next step: raise it when the server is known to pause.
        case idle
        /// The transfer, with its redirects, was not complete within `timeout`. The message says how far it
        /// came.
        ///
        /// Next step: raise it, or use `stream`.
        case total
        /// The whole call, with its repetitions, waits and queues, was not complete within its `deadline`.
        ///
        /// Next step: raise it, or see in `manager.events` what took the time.
        case deadline
    }
}

extension NetworkError.Kind: CustomStringConvertible {
    /// The name, with its associated value in parentheses: `httpStatus`, `timeout(idle)`, `decoding(items[3].price)`.
    public var description: String {
        switch self {
        case .invalidRequest: "invalidRequest"
        case .unknownName: "unknownName"
        case .dns: "dns"
        case .connect: "connect"
        case .tls(let failure): "tls(\(failure.rawValue))"
        case .timeout(let phase): "timeout(\(phase.rawValue))"
        case .cancelled: "cancelled"
        case .httpStatus: "httpStatus"
        case .business(let code): code.isEmpty ? "business" : "business(\(URLText.visible(String(code.prefix(256)))))"
        case .decoding(let path): path.isEmpty ? "decoding" : "decoding(\(path))"
        case .redirect: "redirect"
        case .bodyTooLarge: "bodyTooLarge"
        case .connectionLost: "connectionLost"
        case .protocolViolation: "protocolViolation"
        case .proxy: "proxy"
        case .addressBlocked(let rule): "addressBlocked(\(rule.rawValue))"
        case .cache: "cache"
        case .storage: "storage"
        case .requestBody: "requestBody"
        case .integrity: "integrity"
        case .provider: "provider"
        case .simulation: "simulation"
        case .unsupported: "unsupported"
        case .authentication: "authentication"
        case .duplicate: "duplicate"
        case .circuitOpen: "circuitOpen"
        case .shutDown: "shutDown"
        case .other: "other"
        }
    }
}
