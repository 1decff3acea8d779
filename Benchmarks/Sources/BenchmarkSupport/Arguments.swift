import Glibc

/// The command line of every benchmark program: `MODE URL REQUESTS IN_FLIGHT WARMUP [FILE]`.
public struct Arguments: Sendable {
    /// The work to measure.
    public var mode: String
    /// The URL of the requests.
    public var url: String
    /// The number of measured requests.
    public var requests: Int
    /// The number of concurrent requests.
    public var inFlight: Int
    /// The number of requests before the measurement.
    public var warmup: Int
    /// The file of a download or an upload.
    public var file: String?

    /// Parses the command line. Prints the usage and exits when it is invalid.
    public init(_ arguments: [String] = CommandLine.arguments, modes: [String]) {
        guard arguments.count >= 6, modes.contains(arguments[1]),
            let requests = Int(arguments[3]), requests > 0,
            let inFlight = Int(arguments[4]), inFlight > 0,
            let warmup = Int(arguments[5]), warmup >= 0
        else {
            complain("usage: \(arguments[0]) \(modes.joined(separator: "|")) URL REQUESTS IN_FLIGHT WARMUP [FILE]")
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

/// An error that makes a measurement worthless. It is printed, and the program exits with 1.
public struct Failure: Error, CustomStringConvertible {
    /// What went wrong.
    public let description: String

    /// Makes an error with a description.
    public init(_ description: String) { self.description = description }
}

/// Writes a line to the standard error.
public func complain(_ line: String) { write(STDERR_FILENO, line + "\n", line.utf8.count + 1) }
