import CLibcurl
internal import HTTPCore

extension EasyHandle {
    /// Sets up a request with trailers, which need a chunked body over HTTP/1.1. The connection is always new: libcurl
    /// repeats a request when a pooled connection is dead, and 7.88 cannot send trailers twice.
    func setTrailers() {
        set(CURLOPT_FRESH_CONNECT, 1)
        // Keeps this HTTP/1.1 connection out of the pool, where requests that could use HTTP/2 would reuse it.
        if transfer?.target.isSecure == true { set(CURLOPT_FORBID_REUSE, 1) }
        set(CURLOPT_HTTP_VERSION, Int(CURL_HTTP_VERSION_1_1))
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
