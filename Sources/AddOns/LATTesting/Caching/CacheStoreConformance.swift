import Platform
public import ResponseCache

/// Checks that a store of the response cache obeys the contract of `CacheStore`.
///
/// ```swift
/// @Test func myStoreKeepsTheContract() async throws {
///     let faults = await CacheStoreConformance.check { byteLimit in
///         try await MyStore(byteLimit: byteLimit)
///     }
///     #expect(faults.isEmpty, "\(faults)")                   // XCTAssertEqual(faults, []) in XCTest
/// }
/// ```
///
/// Each rule gets a new store, which must be empty. A fault names the broken rule and what was seen. Rules that need
/// `CacheInspecting` or `CacheLeasing` are skipped for a store without that protocol.
public enum CacheStoreConformance {
    /// A broken rule.
    public struct Fault: Hashable, Sendable, CustomStringConvertible {
        /// The rule.
        public let rule: Rule
        /// What was expected, and what was seen.
        public let message: String

        /// `rule: message`.
        public var description: String { "\(rule.rawValue): \(message)" }
    }

    /// The rules.
    public enum Rule: String, CaseIterable, Sendable {
        /// Every committed entry, small or large, is found again with each field and each byte.
        case wholeEntries
        /// Nothing is visible before the commit, nor after a discard.
        case commit
        /// There is one entry for each variant. The variant that was stored last comes first.
        case variants
        /// Each stored response has its own version, and updates keep it.
        case versions
        /// A writer commits only while the store still has the version that it replaces, or no entry under the key.
        /// Otherwise it reports that it was superseded.
        case replacement
        /// An update replaces everything but the body. It changes nothing if the entry was stored again meanwhile.
        case update
        /// A touch is visible at once and changes nothing else.
        case touch
        /// Every selection removes the entries that it matches and no others.
        case removal
        /// Keys and tags are compared byte by byte, whatever they contain.
        case oddTexts
        /// Concurrent tasks see only whole entries.
        case concurrency
        /// The least recently used entries are removed to make room, and the store stays within its limit.
        case room
        /// An entry larger than the limit is refused with `CacheEntryTooLarge`, and all stored entries stay.
        case refusal
        /// A pinned entry is not removed to make room, and stays pinned when it is stored again.
        case pins
        /// The lists and counts are those of the stored entries (`CacheInspecting`).
        case inspection
        /// A lease has one holder at a time, and ends with its holder (`CacheLeasing`).
        case leases
        /// The median look-up is within the budget.
        case speed
    }

    /// Checks a store.
    ///
    /// - Parameters:
    ///   - rules: the rules to check. Default: all. For a store without a size limit, leave out ``Rule/room``,
    ///     ``Rule/refusal`` and ``Rule/pins``.
    ///   - lookUpBudget: the longest median of the look-ups for ``Rule/speed``. Default: 20 ms, which is how long a
    ///     manager waits for a look-up.
    ///   - timeout: how long a rule may take. Default: 30 s.
    ///   - make: makes an empty store with a limit in bytes for bodies and headers together.
    /// - Returns: the faults, empty for a correct store. An error that the store throws is a fault too, and so is a rule that was
    ///   not checked because the task was cancelled.
    public static func check(
        _ rules: [Rule] = Rule.allCases, lookUpBudget: Duration = .milliseconds(20), timeout: Duration = .seconds(30),
        _ make: @escaping @Sendable (_ byteLimit: Int64) async throws -> any CacheStore
    ) async -> [Fault] {
        var faults: [Fault] = []
        let limits = TimeLimits()
        for rule in rules {
            let check = StoreCheck(rule, lookUpBudget: lookUpBudget, make)
            // A task group would wait for a store that ignores its cancellation.
            let done = Waiter<String?>()
            let run = Task {
                do {
                    try await check.run()
                    done.end(.success(nil))
                } catch {
                    done.end(.success("the store threw: \(error)"))
                }
            }
            let result: String?
            do {
                result = try await limits.value(
                    of: done, within: timeout, late: .success("not done after \(timeout)"))
            } catch {
                result = "not checked to its end, because the task was cancelled"
            }
            run.cancel()
            faults += (check.messages + [result].compactMap { $0 }).map { Fault(rule: rule, message: $0) }
        }
        return faults
    }
}
