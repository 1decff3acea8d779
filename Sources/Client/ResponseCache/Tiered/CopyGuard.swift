import Synchronization

/// Detects, without a lock, copies that were made while their key changed, so that they can be removed.
///
/// Each group of keys has one number: the count of running changes in its lower bits, the count of begun and ended ones
/// above. A look-up reads the number before it queries the lower store, and its copy stays only if the number is the
/// same afterwards. A change adds to the number when it begins and when it ends, and its copy stays only if no other change
/// overlapped.
final class CopyGuard: Sendable {
    private final class Group: Sendable {
        let number = Atomic<UInt64>(0)
    }

    /// One begun or ended change; the bits below count the running ones.
    private static let generation: UInt64 = 1 << 16

    private let groups = (0..<1_024).map { _ in Group() }

    private func groups(of selection: CacheSelection) -> ArraySlice<Group> {
        guard let index = selection.primaryKey?.index(among: groups.count) else { return groups[...] }
        return groups[index...index]
    }

    // MARK: Look-ups

    /// The number to read before the lower store is queried; `nil` during a change, when nothing may be copied.
    func stamp(of primaryKey: String) -> UInt64? {
        let number = groups(of: .primaryKey(primaryKey)).first?.number.load(ordering: .sequentiallyConsistent) ?? 0
        return number % Self.generation == 0 ? number : nil
    }

    // MARK: Changes

    func begin(_ selection: CacheSelection) -> [UInt64] {
        groups(of: selection).map {
            $0.number.wrappingAdd(Self.generation + 1, ordering: .sequentiallyConsistent).newValue
        }
    }

    /// Ends a change with the result of ``begin(_:)``, and returns whether no other change overlapped with it.
    func end(_ selection: CacheSelection, _ begun: [UInt64]) -> Bool {
        var isAlone = true
        for (group, number) in zip(groups(of: selection), begun) {
            let before = group.number.wrappingAdd(Self.generation - 1, ordering: .sequentiallyConsistent).oldValue
            if before != number || number % Self.generation != 1 { isAlone = false }
        }
        return isAlone
    }
}
