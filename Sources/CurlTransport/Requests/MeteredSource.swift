internal import HTTPCore

/// A source that reports each read to a handler.
final class MeteredSource: BodySource {
    private let source: any BodySource
    private let handler: BodyHandler
    private let file: Int?

    /// Wraps a source; returns the source itself without a handler.
    static func of(_ source: any BodySource, _ handler: BodyHandler?, file: Int? = nil) -> any BodySource {
        handler.map { MeteredSource(source, $0, file) } ?? source
    }

    private init(_ source: any BodySource, _ handler: @escaping BodyHandler, _ file: Int?) {
        self.source = source
        self.handler = handler
        self.file = file
    }

    var length: Int64? { source.length }

    func read(into buffer: UnsafeMutableRawBufferPointer) -> BodyRead {
        let result = source.read(into: buffer)
        switch result {
        case .bytes(let count): handler(.read(count), file)
        case .end: handler(.end, file)
        case .pause, .failed: break
        }
        return result
    }

    func rewind() -> Bool {
        guard source.rewind() else { return false }
        handler(.rewound, file)
        return true
    }

    func start(wake: @escaping @Sendable () -> Void) {
        // Each redirect or retry is a new transfer, with a new source for the same file.
        handler(.rewound, file)
        source.start(wake: wake)
    }

    func stop() { source.stop() }
}
