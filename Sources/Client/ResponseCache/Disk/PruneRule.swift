/// The rule for how much may be stored.
struct PruneRule: Hashable, Sendable {
    var byteLimit: Int64
    /// The bytes to leave free on the disk.
    var freeFloor: Int64

    /// The maximum number of bytes of entries for now. Free bytes above the floor may be used. If fewer bytes are free,
    /// the limit is below `used`, so that entries are evicted. `freeByteCount` is `nil` when the system does not say.
    func limit(used: Int64, freeByteCount: Int64?) -> Int64 {
        guard let freeByteCount else { return byteLimit }
        let (room, isHuge) = used.addingReportingOverflow(freeByteCount - freeFloor)
        return max(0, isHuge ? byteLimit : min(byteLimit, room))
    }
}
