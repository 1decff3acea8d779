import CLibcurl
internal import HTTPCore

// The options that all transfers of an engine share, set when a handle is made and after each reset.
extension EasyHandle {
    func setBaseOptions() {
        let context = UnsafeRawPointer(Unmanaged.passUnretained(self).toOpaque())
        let configuration = engine.configuration
        set(CURLOPT_PRIVATE, pointer: context)
        set(CURLOPT_ERRORBUFFER, pointer: errorBuffer)
        set(CURLOPT_NOSIGNAL, 1)
        // Otherwise ending a transfer would block the engine's thread until its name look-up is over.
        set(CURLOPT_QUICK_EXIT, 1)
        set(CURLOPT_PROTOCOLS_STR, "http,https")
        set(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1)
        set(CURLOPT_TCP_KEEPALIVE, 1)
        set(CURLOPT_MAXAGE_CONN, engine.wholeSeconds(configuration.idleConnectionLifetime))
        set(CURLOPT_MAXLIFETIME_CONN, configuration.connectionLifetime.map(engine.wholeSeconds) ?? 0)
        set(CURLOPT_DNS_CACHE_TIMEOUT, engine.wholeSeconds(configuration.dnsCacheLifetime))
        set(CURLOPT_HTTP_VERSION, VersionChoice.automatic.value)
        set(CURLOPT_SHARE, pointer: engine.share)
        // A libcurl without TLS refuses the TLS options, and can still send requests in clear text.
        if GlobalCurl.has(CURL_VERSION_SSL) { setTLS() }
        setProxyAuthentication()
        // Both are set, even if empty, so that libcurl ignores the environment's proxy variables.
        set(CURLOPT_PROXY, "")
        set(CURLOPT_NOPROXY, "")
        if let path = configuration.unixSocketPath { set(CURLOPT_UNIX_SOCKET_PATH, path) }
        note(lat_setopt_data(curl, CURLOPT_WRITEFUNCTION, writeCallback), CURLOPT_WRITEFUNCTION)
        set(CURLOPT_WRITEDATA, pointer: context)
        note(lat_setopt_data(curl, CURLOPT_HEADERFUNCTION, headerCallback), CURLOPT_HEADERFUNCTION)
        set(CURLOPT_HEADERDATA, pointer: context)
        note(lat_setopt_read(curl, readCallback), CURLOPT_READFUNCTION)
        note(lat_setopt_seek(curl, seekCallback), CURLOPT_SEEKFUNCTION)
        note(lat_setopt_progress(curl, progressCallback), CURLOPT_XFERINFOFUNCTION)
        set(CURLOPT_XFERINFODATA, pointer: context)
        note(lat_setopt_prereq(curl, prereqCallback), CURLOPT_PREREQFUNCTION)
        set(CURLOPT_PREREQDATA, pointer: context)
        note(lat_setopt_debug(curl, debugCallback), CURLOPT_DEBUGFUNCTION)
        set(CURLOPT_DEBUGDATA, pointer: context)
        let engineContext = UnsafeRawPointer(Unmanaged.passUnretained(engine).toOpaque())
        note(lat_setopt_open_socket(curl, openSocketCallback), CURLOPT_OPENSOCKETFUNCTION)
        set(CURLOPT_OPENSOCKETDATA, pointer: context)
        note(lat_setopt_close_socket(curl, closeSocketCallback), CURLOPT_CLOSESOCKETFUNCTION)
        set(CURLOPT_CLOSESOCKETDATA, pointer: engineContext)
        // libcurl refuses the option while it holds a buffer of another size.
        if hasLargeBuffer, lat_setopt_long(curl, CURLOPT_BUFFERSIZE, Self.largeBufferSize) != CURLE_OK {
            isSpent = true
        }
        setHostOverrides()
        for entry in engine.options.entries { note(entry.set(on: curl), entry.option) }
    }

    private func setProxyAuthentication() {
        switch engine.configuration.proxyAuthentication {
        case .basic: break
        case .digest: set(CURLOPT_PROXYAUTH, Int(bitPattern: digestScheme))
        case .any: set(CURLOPT_PROXYAUTH, Int(bitPattern: anyScheme))
        }
    }

    private func setHostOverrides() {
        let configuration = engine.configuration
        if resolveList == nil {
            for (host, address) in configuration.resolve.sorted(by: { $0.key < $1.key }) {
                resolveList = curl_slist_append(resolveList, "\(host):\(address)")
            }
        }
        if connectToList == nil {
            for rule in configuration.connectTo { connectToList = curl_slist_append(connectToList, rule) }
        }
        if let resolveList { set(CURLOPT_RESOLVE, pointer: resolveList) }
        if let connectToList { set(CURLOPT_CONNECT_TO, pointer: connectToList) }
    }
}

extension EasyHandle {
    /// Sets up a request with trailers, which need a chunked body over HTTP/1.1. The connection is always new: libcurl
    /// repeats a request when a pooled connection is dead, and 7.88 cannot send trailers twice.
    func setTrailers() {
        set(CURLOPT_FRESH_CONNECT, 1)
        // Keeps this HTTP/1.1 connection out of the pool, where requests that could use HTTP/2 would reuse it.
        if transfer?.target.isSecure == true { set(CURLOPT_FORBID_REUSE, 1) }
        note(lat_setopt_trailers(curl, trailerCallback), CURLOPT_TRAILERFUNCTION)
        set(CURLOPT_TRAILERDATA, pointer: UnsafeRawPointer(Unmanaged.passUnretained(self).toOpaque()))
    }
}

let trailerCallback: curl_trailer_callback = { list, context in
    guard let list, let context, let transfer = EasyHandle.from(context).transfer else { return CURL_TRAILERFUNC_ABORT }
    guard let trailers = transfer.request.trailers else { return CURL_TRAILERFUNC_OK }
    transfer.hasSentTrailers = true
    do throws(NetworkError) {
        list.pointee = try TrailerFields.list(trailers)
        return CURL_TRAILERFUNC_OK
    } catch {
        transfer.fail(error)
        return CURL_TRAILERFUNC_ABORT
    }
}
