import CLibcurl
import FoundationEssentials

extension EasyHandle {
    /// Sets what is the same for all transfers of an engine: authorities, the client's certificate, versions, ciphers.
    func setTLS() {
        let tls = engine.tls
        let configuration = tls.configuration
        set(CURLOPT_SSLVERSION, tls.versions)
        set(CURLOPT_PROXY_SSLVERSION, tls.versions)
        setAuthorities(tls)
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
        if !configuration.reusesSessions { set(CURLOPT_SSL_SESSIONID_CACHE, 0) }
        if !configuration.verifiesCertificates {
            set(CURLOPT_SSL_VERIFYPEER, 0)
            set(CURLOPT_SSL_VERIFYHOST, 0)
        }
        switch engine.configuration.proxyAuthentication {
        case .basic: break
        case .digest: set(CURLOPT_PROXYAUTH, Int(bitPattern: digestScheme))
        case .any: set(CURLOPT_PROXYAUTH, Int(bitPattern: anyScheme))
        }
        if GlobalCurl.usesOpenSSL { note(lat_setopt_tls_observer(curl, tlsSlot), CURLOPT_SSL_CTX_FUNCTION) }
    }

    private func setAuthorities(_ tls: TLSMaterial) {
        let file = tls.configuration.caFile
        guard file != nil || tls.authorities != nil else { return }
        if let authorities = tls.authorities {
            set(CURLOPT_CAINFO_BLOB, authorities)
            set(CURLOPT_PROXY_CAINFO_BLOB, authorities)
        } else {
            set(CURLOPT_CAINFO, file)
            set(CURLOPT_PROXY_CAINFO, file)
        }
        // In place of the system's, so its folder does not count either.
        set(CURLOPT_CAPATH, nil)
        set(CURLOPT_PROXY_CAPATH, nil)
    }

    private func set(_ option: CURLoption, _ data: Data) {
        data.withUnsafeBytes { note(lat_setopt_blob(curl, option, $0.baseAddress, $0.count), option) }
    }
}
