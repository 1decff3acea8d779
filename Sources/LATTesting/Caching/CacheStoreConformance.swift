public import ResponseCache

/// Runs a store of the response cache through all that ``CacheStore`` promises.
///
/// ```swift
/// @Test func myStoreKeepsTheContract() async throws {
///     let faults = await CacheStoreConformance.check { byteLimit in
///         try await RedisStore(url: url, prefix: UUID().uuidString, byteLimit: byteLimit)
///     }
///     #expect(faults.isEmpty, "\(faults)")                   // XCTAssertEqual(faults, []) in XCTest
/// }
/// ```
///
/// Each rule has a new store, which must be empty. A fault names the rule that is broken and what was seen. Rules that need
/// ``CacheInspecting``, ``CacheInvalidating`` or ``CacheLeasing`` are passed over for a store without it.
public enum CacheStoreConformance {
    /// A promise that was not kept.
    public struct Fault: Hashable, Sendable, CustomStringConvertible {
        /// The rule.
        public let rule: Rule
        /// What was expected, and what was seen.
        public let message: String

        /// `rule: message`.
        public var description: String { "\(rule.rawValue): \(message)" }
    }

    /// What is checked.
    public enum Rule: String, CaseIterable, Sendable {
        /// What is committed is found again, each field and each byte, small and large.
        case wholeEntries
        /// Nothing is seen before the commit, nor after a discard.
        case commit
        /// One entry for each variant, the one stored last first.
        case variants
        /// Each storing has a version of its own, and updates keep it.
        case versions
        /// A writer commits over the version that it replaces, or over nothing, and else reports that it was superseded.
        case replacement
        /// An update replaces all but the body, and nothing that was stored anew since.
        case update
        /// A touch is seen at once, and harms nothing.
        case touch
        /// Every selection removes what it means and nothing else.
        case removal
        /// Keys and tags are told apart byte by byte, whatever they are made of.
        case oddTexts
        /// Tasks at once see whole entries only.
        case concurrency
        /// What was not used for the longest time makes room, and no more is kept than fits.
        case room
        /// An entry larger than the limit is refused as ``CacheEntryTooLarge``, and all that is stored stays.
        case refusal
        /// A pinned entry is not removed to make room, and stays pinned when it is stored anew.
        case pins
        /// What is listed and counted is what is there (``CacheInspecting``).
        case inspection
        /// A lease is had by one at a time, and ends with its holder (``CacheLeasing``).
        case leases
        /// A look-up takes less than the budget, most of the time.
        case speed
    }

    /// Checks a store.
    ///
    /// - Parameters:
    ///   - rules: what is checked. Default: all. A store without a limit of its own leaves out ``Rule/room``,
    ///     ``Rule/refusal`` and ``Rule/pins``.
    ///   - lookUpBudget: what the median of the look-ups may take for ``Rule/speed``. Default: 20 ms, which is how long a manager
    ///     waits for one.
    ///   - timeout: how long a rule may take. Default: 30 s.
    ///   - make: makes an empty store that holds so many bytes of bodies and headers at most.
    /// - Returns: the promises that were not kept; none for a good store. What the store throws is one too.
    public static func check(
        _ rules: [Rule] = Rule.allCases, lookUpBudget: Duration = .milliseconds(20), timeout: Duration = .seconds(30),
        _ make: @escaping @Sendable (_ byteLimit: Int64) async throws -> any CacheStore
    ) async -> [Fault] {
        var faults: [Fault] = []
        for rule in rules {
            let check = StoreCheck(rule, lookUpBudget: lookUpBudget, make)
            let result = await withTaskGroup(of: String?.self) { group in
                group.addTask {
                    do {
                        try await check.run()
                        return nil
                    } catch {
                        return "the store threw: \(error)"
                    }
                }
                group.addTask {
                    do { try await Task.sleep(for: timeout) } catch { return nil }
                    return "not done after \(timeout)"
                }
                let first = await group.next() ?? nil
                group.cancelAll()
                return first
            }
            faults += (check.messages + [result].compactMap { $0 }).map { Fault(rule: rule, message: $0) }
        }
        return faults
    }
}
