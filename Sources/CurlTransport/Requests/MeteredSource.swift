import HTTPCore

/// A source whose meter is told of every read.
final class MeteredSource: BodySource {
    private let source: any BodySource
    private let meter: BodyMeter

    /// The source itself when there is no meter.
    static func of(_ source: any BodySource, _ meter: BodyMeter?) -> any BodySource {
        meter.map { MeteredSource(source, $0) } ?? source
    }

    private init(_ source: any BodySource, _ meter: BodyMeter) {
        self.source = source
        self.meter = meter
    }

    var length: Int64? { source.length }

    func read(into buffer: UnsafeMutableRawBufferPointer) -> BodyRead {
        let result = source.read(into: buffer)
        switch result {
        case .bytes(let count): meter.note(.read(count))
        case .end: meter.note(.end)
        case .pause, .failed: break
        }
        return result
    }

    func rewind() -> Bool {
        guard source.rewind() else { return false }
        meter.note(.rewound)
        return true
    }

    func start(wake: @escaping @Sendable () -> Void) {
        // A redirect or a retry is a transfer of its own, with a source of its own for the same file.
        meter.note(.rewound)
        source.start(wake: wake)
    }

    func stop() { source.stop() }
}
