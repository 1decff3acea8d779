/// Media types.
package enum MediaType {
    private static let byExtension: [String: String] = [
        "txt": "text/plain", "html": "text/html", "htm": "text/html", "css": "text/css", "csv": "text/csv",
        "md": "text/markdown", "xml": "application/xml", "json": "application/json", "js": "text/javascript",
        "pdf": "application/pdf", "zip": "application/zip", "gz": "application/gzip", "tar": "application/x-tar",
        "png": "image/png", "jpg": "image/jpeg", "jpeg": "image/jpeg", "gif": "image/gif", "webp": "image/webp",
        "svg": "image/svg+xml", "heic": "image/heic", "avif": "image/avif", "bmp": "image/bmp",
        "ico": "image/vnd.microsoft.icon", "mp3": "audio/mpeg", "m4a": "audio/mp4", "wav": "audio/wav",
        "ogg": "audio/ogg", "mp4": "video/mp4", "mov": "video/quicktime", "webm": "video/webm",
        "wasm": "application/wasm", "yaml": "application/yaml", "yml": "application/yaml",
    ]

    /// The type and subtype of a `Content-Type` in lower case, without parameters (RFC 9110 §8.3.1).
    ///
    /// White space is allowed only around the parameters, so `text / html` is another type than `text/html`.
    package static func essence(of contentType: String) -> String {
        String(contentType.prefix { $0 != ";" }).trimmingFieldWhitespace.lowercased()
    }

    /// Whether a `Content-Type` is JSON: `application/json`, or a type that ends with `+json` (RFC 6839 §3.1).
    package static func isJSON(_ contentType: String?) -> Bool {
        guard let type = contentType.map(essence) else { return false }
        return type == "application/json" || type.hasSuffix("+json")
    }

    /// The type for a file name or path; `nil` when the extension is missing or unknown.
    ///
    /// A built-in list is searched first, so that common uploads have the same type on every machine, and then the
    /// system's list.
    package static func forFileName(_ path: String) -> String? {
        let name = path.split(separator: "/", omittingEmptySubsequences: false).last ?? ""
        guard let dot = name.lastIndex(of: "."), dot != name.index(before: name.endIndex) else { return nil }
        return byExtension[name[name.index(after: dot)...].lowercased()] ?? MediaTypeTable.system.type(of: name)
    }
}
