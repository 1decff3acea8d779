/// The rule for how much may be stored. A pure value.
struct PruneRule: Hashable, Sendable {
    /// The most bytes of entries.
    var byteLimit: Int64
    /// The bytes to leave free on the disk.
    var freeFloor: Int64

    /// The most bytes of entries for now: free bytes above the floor may be used, and bytes missing below it are evicted.
    ///
    /// - Parameter freeByteCount: the free bytes of the disk; `nil` when the system does not say.
    func limit(used: Int64, freeByteCount: Int64?) -> Int64 {
        guard let freeByteCount else { return byteLimit }
        let (room, isHuge) = used.addingReportingOverflow(freeByteCount - freeFloor)
        return max(0, isHuge ? byteLimit : min(byteLimit, room))
    }
}
