import CLibcurl

/// The context of a MIME part's callbacks. libcurl holds it until it frees the part.
final class MIMEReader: CallbackContext {
    let source: any BodySource
    unowned let handle: EasyHandle

    init(source: any BodySource, handle: EasyHandle) {
        self.source = source
        self.handle = handle
    }
}

extension EasyHandle {
    /// Sets a multipart body (`CURLOPT_MIMEPOST`).
    func setMIME(_ parts: [PreparedBody.Part]) {
        guard let mime = curl_mime_init(curl) else { return note(CURLE_OUT_OF_MEMORY, CURLOPT_MIMEPOST) }
        self.mime = mime
        for part in parts {
            guard let field = curl_mime_addpart(mime) else { return note(CURLE_OUT_OF_MEMORY, CURLOPT_MIMEPOST) }
            note(curl_mime_name(field, part.name), CURLOPT_MIMEPOST)
            let reader = Unmanaged.passRetained(MIMEReader(source: part.source, handle: self)).toOpaque()
            note(
                curl_mime_data_cb(
                    field, curl_off_t(part.source.length ?? -1), mimeReadCallback, mimeSeekCallback, mimeFreeCallback,
                    reader),
                CURLOPT_MIMEPOST)
            note(curl_mime_filename(field, part.fileName), CURLOPT_MIMEPOST)
            if let contentType = part.contentType { note(curl_mime_type(field, contentType), CURLOPT_MIMEPOST) }
        }
        set(CURLOPT_MIMEPOST, pointer: UnsafeRawPointer(mime))
    }
}
