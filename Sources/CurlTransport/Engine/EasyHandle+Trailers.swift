import CLibcurl
import HTTPCore

extension EasyHandle {
    /// Trailers need HTTP/1.1, in which the body is chunked. A connection of the pool is not taken: libcurl repeats a
    /// request by itself when that is dead, and 7.88 cannot say trailers twice.
    func setTrailers() {
        set(CURLOPT_FRESH_CONNECT, 1)
        // Left in the pool it would be taken by requests that could go over HTTP/2.
        if transfer?.target.isSecure == true { set(CURLOPT_FORBID_REUSE, 1) }
        set(CURLOPT_HTTP_VERSION, Int(CURL_HTTP_VERSION_1_1))
        note(lat_setopt_trailers(curl, trailerCallback), CURLOPT_TRAILERFUNCTION)
        set(CURLOPT_TRAILERDATA, pointer: UnsafeRawPointer(Unmanaged.passUnretained(self).toOpaque()))
    }
}

let trailerCallback: curl_trailer_callback = { list, context in
    guard let list, let context, let transfer = EasyHandle.from(context).transfer else { return CURL_TRAILERFUNC_ABORT }
    guard let trailers = transfer.request.trailers else { return CURL_TRAILERFUNC_OK }
    transfer.hasMadeTrailers = true
    do throws(NetworkError) {
        list.pointee = try TrailerFields.list(trailers)
        return CURL_TRAILERFUNC_OK
    } catch {
        transfer.fail(error)
        return CURL_TRAILERFUNC_ABORT
    }
}
