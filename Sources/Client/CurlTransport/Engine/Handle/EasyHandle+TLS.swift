import CLibcurl
import FoundationEssentials
internal import HTTPCore

extension EasyHandle {
    /// Sets the options of ``tls``. A proxy gets the engine's settings, whatever those of a request are.
    func setTLS() {
        let configuration = tls.configuration
        set(CURLOPT_SSLVERSION, tls.versions)
        set(CURLOPT_PROXY_SSLVERSION, engine.tls.versions)
        setAuthorities()
        switch tls.identity {
        case nil: break
        case .pkcs12(let data, let password):
            set(CURLOPT_SSLCERTTYPE, "P12")
            set(CURLOPT_SSLCERT_BLOB, data)
            set(CURLOPT_KEYPASSWD, password)
        case .pem(let certificate, let key, let password):
            set(CURLOPT_SSLCERT_BLOB, certificate)
            set(CURLOPT_SSLKEY_BLOB, key)
            if let password { set(CURLOPT_KEYPASSWD, password) }
        }
        if let list = configuration.cipherList { set(CURLOPT_SSL_CIPHER_LIST, list) }
        if let suites = configuration.cipherSuites { set(CURLOPT_TLS13_CIPHERS, suites) }
        resumesSessions = tls.resumesSessions
        // Otherwise libcurl would cache sessions itself.
        if OpenSSL.shared != nil || !resumesSessions { set(CURLOPT_SSL_SESSIONID_CACHE, 0) }
        if configuration.requiresOCSPStapling { set(CURLOPT_SSL_VERIFYSTATUS, 1) }
        if !configuration.verifiesCertificates {
            set(CURLOPT_SSL_VERIFYPEER, 0)
            set(CURLOPT_SSL_VERIFYHOST, 0)
            set(CURLOPT_PROXY_SSL_VERIFYPEER, 0)
            set(CURLOPT_PROXY_SSL_VERIFYHOST, 0)
        }
        if OpenSSL.shared != nil {
            let context = UnsafeMutableRawPointer(Unmanaged.passUnretained(self).toOpaque())
            note(lat_setopt_ssl_context(curl, contextCallback, context), CURLOPT_SSL_CTX_FUNCTION)
        }
    }

    private func setAuthorities() {
        guard OpenSSL.shared == nil else {
            // Each SSL_CTX gets the parsed certificates, so libcurl must neither read nor cache any.
            set(CURLOPT_CAINFO, nil)
            set(CURLOPT_PROXY_CAINFO, nil)
            set(CURLOPT_CA_CACHE_TIMEOUT, 0)
            // Without a CA setting, a libcurl built with CURL_CA_FALLBACK parses the system's file for each connection.
            // A path without certificates prevents that; TLSHandshake then replaces libcurl's certificate store. The path
            // also keeps connections with other settings apart, because libcurl compares it.
            set(CURLOPT_CAPATH, tls.number == 0 ? "/dev/null" : "/dev/null/\(tls.number)")
            set(CURLOPT_PROXY_CAPATH, "/dev/null")
            return
        }
        // The authorities replace the system's CA file, so the system's CA folder must not apply either.
        if let authorities = tls.authorities {
            set(CURLOPT_CAINFO_BLOB, authorities)
            set(CURLOPT_CAPATH, nil)
        }
        if let authorities = engine.tls.authorities {
            set(CURLOPT_PROXY_CAINFO_BLOB, authorities)
            set(CURLOPT_PROXY_CAPATH, nil)
        }
    }

    /// Sets up the `SSL_CTX` of a new connection.
    ///
    /// - Parameter user: The libcurl handle that connects: this one, or that of a look-up over HTTPS.
    fileprivate func setUp(_ context: UnsafeMutableRawPointer, for user: UnsafeMutableRawPointer?) -> CURLcode {
        guard let library = OpenSSL.shared else { return CURLE_OK }
        // A connection through an HTTPS proxy begins with the proxy's handshake; that with the server comes after it.
        let proxy =
            user == curl && !hasProxyHandshake ? transfer?.plan.proxy.flatMap { $0.isSecure ? $0.url : nil } : nil
        if proxy != nil { hasProxyHandshake = true }
        let isForServer = user == curl && proxy == nil
        let tls = isForServer ? self.tls : engine.tls
        if user != curl {
            // SSL_CTRL_SET_MIN_PROTO_VERSION. libcurl does not pass the minimum version to its handles for look-ups.
            let minimum = tls.configuration.minimumVersion == .v1_3 ? 0x0304 : 0x0303
            guard library.pointee.SSL_CTX_ctrl(context, 123, minimum, nil) == 1 else { return CURLE_SSL_CONNECT_ERROR }
        }
        var trust: CertificateStore?
        if let store = tls.trust {
            trust = store.storeForConnection()
            // Without the system's certificates no server can be trusted.
            guard trust != nil else { return CURLE_SSL_CACERT_BADFILE }
        }
        handshake = TLSHandshake(
            context: context, library: library, target: transfer?.target, proxy: proxy, trust: trust,
            revocation: isForServer ? tls.revocation : nil, canWait: transfer?.canWaitForLists == true,
            sessions: resumesSessions ? engine.sessions(for: tls) : nil, keyLog: tls.keyLog,
            floods: engine.floods)
        handshake?.isWithServer = isForServer
        return handshake == nil ? CURLE_OUT_OF_MEMORY : CURLE_OK
    }

    private func set(_ option: CURLoption, _ data: Data) {
        data.withUnsafeBytes { note(lat_setopt_blob(curl, option, $0.baseAddress, $0.count), option) }
    }
}

private let contextCallback: curl_ssl_ctx_callback = { user, context, handle in
    guard let context, let handle else { return CURLE_OK }
    return EasyHandle.from(handle).setUp(context, for: user)
}
