import LATNetworking

/// `lat --version`.
struct VersionCommand: Command {
    static let name = "version"
    static let summary = "Shows the version."
    static let usage = ""
    static let version = CurlTransport.version

    init() {}

    init(_ arguments: ParsedArguments) throws(UsageError) {}

    func run(_ console: Console) async throws -> ExitCode {
        try console.print("lat \(Self.version)")
        return .success
    }
}
