public import FoundationEssentials
public import HTTPCore

/// All that is known of the last try to reach a server.
public struct ReachabilityReport: Sendable {
    /// The name or URL that was asked for.
    public var target: String
    /// The URL that was tried: for a domain its base, or the mirror that could be reached; empty when there is none.
    public var url = ""
    /// What came of it.
    public var status = ReachabilityStatus.unknown
    /// How long name, connection and TLS took; each counted from the start.
    public var timings = Timings.none
    /// Why it failed, with the next step for the reader; `nil` otherwise.
    public var error: NetworkError?
    /// When; `nil` when nobody has tried.
    public var date: Date?

    init(target: String) { self.target = target }
}
