/// What a process found out about a host, or about one of its addresses, for others.
package enum CircuitReport: Hashable, Sendable {
    /// It fails. It is probed after this time.
    case opened(Duration)
    /// It works again.
    case closed
}
