import Synchronization

/// Keeps copies of a tier right without a lock: what is copied while something changes is taken back.
///
/// For each group of keys there is one number: how many changes are on their way, and how many have begun or ended. A look-up
/// notes it before it asks the store behind. Its copy stays only if the number is the same after the copy was made. A
/// change adds to it when it begins and when it ends; what it puts into the tier stays only if no other change
/// overlapped with it.
final class CopyGuard: Sendable {
    private final class Group: Sendable {
        let number = Atomic<UInt64>(0)
    }

    /// The lower bits count the changes on their way.
    private static let generation: UInt64 = 1 << 16

    private let groups = (0..<1_024).map { _ in Group() }

    private func groups(of selection: CacheSelection) -> ArraySlice<Group> {
        let primaryKey: String
        switch selection {
        case .key(let key): primaryKey = key.primary
        case .primaryKey(let key): primaryKey = key
        default: return groups[...]
        }
        var hasher = Hasher()
        primaryKey.hashBytes(into: &hasher)
        let index = Int(truncatingIfNeeded: UInt(bitPattern: hasher.finalize())) & (groups.count - 1)
        return groups[index...index]
    }

    // MARK: Look-ups

    /// To be noted before the store behind is asked; `nil` while something changes, when there is nothing to be copied.
    func stamp(of primaryKey: String) -> UInt64? {
        let number = groups(of: .primaryKey(primaryKey)).first?.number.load(ordering: .sequentiallyConsistent) ?? 0
        return number % Self.generation == 0 ? number : nil
    }

    // MARK: Changes

    /// Begins a change.
    func begin(_ selection: CacheSelection) -> [UInt64] {
        groups(of: selection).map {
            $0.number.wrappingAdd(Self.generation + 1, ordering: .sequentiallyConsistent).newValue
        }
    }

    /// Ends a change.
    ///
    /// - Parameter begun: what ``begin(_:)`` gave.
    /// - Returns: whether no other change overlapped with it.
    func end(_ selection: CacheSelection, _ begun: [UInt64]) -> Bool {
        var isAlone = true
        for (group, number) in zip(groups(of: selection), begun) {
            let before = group.number.wrappingAdd(Self.generation - 1, ordering: .sequentiallyConsistent).oldValue
            if before != number || number % Self.generation != 1 { isAlone = false }
        }
        return isAlone
    }
}
