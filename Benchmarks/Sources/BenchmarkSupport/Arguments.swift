import Foundation

/// What every program here is called with: `MODE URL REQUESTS IN_FLIGHT WARMUP [FILE]`.
public struct Arguments: Sendable {
    /// What to do.
    public var mode: String
    /// Where to.
    public var url: String
    /// How often, while it is measured.
    public var requests: Int
    /// How many at the same time.
    public var inFlight: Int
    /// How often before it is measured.
    public var warmup: Int
    /// Where a download goes.
    public var file: String?

    /// Reads the command line; ends the program with a usage line when it makes no sense.
    public init(_ arguments: [String] = CommandLine.arguments, modes: [String]) {
        guard arguments.count >= 6, modes.contains(arguments[1]),
            let requests = Int(arguments[3]), requests > 0,
            let inFlight = Int(arguments[4]), inFlight > 0,
            let warmup = Int(arguments[5]), warmup >= 0
        else {
            let usage = "usage: \(arguments[0]) \(modes.joined(separator: "|")) URL REQUESTS IN_FLIGHT WARMUP [FILE]\n"
            FileHandle.standardError.write(Data(usage.utf8))
            exit(2)
        }
        mode = arguments[1]
        url = arguments[2]
        self.requests = requests
        self.inFlight = inFlight
        self.warmup = warmup
        file = arguments.count > 6 ? arguments[6] : nil
    }
}

/// Something that makes a measurement worthless; printed, and the program ends with 1.
public struct Failure: Error, CustomStringConvertible {
    /// What went wrong.
    public let description: String

    /// Says what went wrong.
    public init(_ description: String) { self.description = description }
}
