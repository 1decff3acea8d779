/// How much may be stored. A pure value.
struct PruneRule: Hashable, Sendable {
    /// The most bytes of entries.
    var byteLimit: Int64
    /// The bytes that are to stay free on the disk.
    var freeFloor: Int64

    /// The most bytes of entries as things are: what is free above the floor may be used, what is missing to it goes.
    ///
    /// - Parameter freeByteCount: `nil` when the system does not say.
    func limit(used: Int64, freeByteCount: Int64?) -> Int64 {
        guard let freeByteCount else { return byteLimit }
        let (room, isHuge) = used.addingReportingOverflow(freeByteCount - freeFloor)
        return max(0, isHuge ? byteLimit : min(byteLimit, room))
    }
}
