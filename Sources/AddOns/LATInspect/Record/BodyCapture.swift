/// Which bodies are kept, and how much of each.
///
/// ```swift
/// var bodies = BodyCapture()
/// bodies.maxSize = 1 << 20
/// bodies.keeps = { type in type.hasPrefix("image/") || BodyCapture.isText(type) }
/// ```
public struct BodyCapture: Sendable {
    /// The largest number of bytes that is kept of a body. Default 256 KiB. Of a larger body only the beginning is kept.
    /// A negative number counts as 0.
    public var maxSize = 256 << 10 {
        didSet { maxSize = max(0, maxSize) }
    }
    /// Whether bodies of a media type are kept; the type is in lower case and without parameters, and empty when there is
    /// none. Default: all but audio, video and archives.
    public var keeps: @Sendable (_ mediaType: String) -> Bool = { type in
        !["audio/", "video/", "application/zip", "application/gzip", "application/x-tar", "application/x-7z"]
            .contains { type.hasPrefix($0) }
    }

    /// Keeps the first 256 KiB of all but audio, video and archives.
    public init() {}

    /// Keeps the first `maxSize` bytes of bodies of all types.
    public init(maxSize: Int) {
        self.maxSize = max(0, maxSize)
        keeps = { _ in true }
    }

    /// Keeps no body.
    public static let none: BodyCapture = {
        var none = BodyCapture(maxSize: 0)
        none.keeps = { _ in false }
        return none
    }()

    /// Whether a media type is that of a text.
    public static func isText(_ mediaType: String) -> Bool {
        mediaType.hasPrefix("text/") || mediaType.hasSuffix("+json") || mediaType.hasSuffix("+xml")
            || [
                "application/json", "application/xml", "application/javascript", "application/x-ndjson",
                "application/x-www-form-urlencoded", "application/graphql", "application/problem+json",
            ].contains(mediaType)
    }
}
