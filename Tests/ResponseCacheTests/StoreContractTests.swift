import Foundation
import HTTPCore
import LATTesting
import TestSupport
import Testing

@testable import ResponseCache

/// Every store of this module conforms to the contract, and the conformance kit reports faulty stores.
@Suite struct StoreContractTests {
    private let directory: TemporaryDirectory

    init() throws { directory = try TemporaryDirectory() }

    @Test(arguments: Kind.allCases, CacheStoreConformance.Rule.allCases)
    func storeKeepsRule(_ kind: Kind, _ rule: CacheStoreConformance.Rule) async throws {
        let faults = await CacheStoreConformance.check([rule], lookUpBudget: .seconds(1), timeout: .seconds(240)) {
            [directory] byteLimit in try kind.make(in: directory, limit: byteLimit)
        }
        #expect(faults.isEmpty, "\(faults)")
        #expect(kind == .memory || directory.contents.allSatisfy { !$0.hasSuffix(".part") })
    }

    @Test(arguments: [Kind.memory, .disk, .sealedDisk]) func tenThousandKeysStayDistinct(_ kind: Kind) async throws {
        let store = try kind.make(in: directory, limit: 1 << 30)
        let path = String(repeating: "x", count: 10_000)
        let count = 10_000
        try await withThrowingTaskGroup(of: Void.self) { group in
            for worker in 0..<20 {
                group.addTask {
                    for number in stride(from: worker, to: count, by: 20) {
                        let url = "http://h/" + (number % 50 == 0 ? path : "") + "\(number)"
                        try await store.put(Make.entry("k\(number)", url: url), Data("\(number)".utf8))
                    }
                }
            }
            try await group.waitForAll()
        }
        #expect(try await store.usage().entryCount == count)
        for number in stride(from: 0, to: count, by: 7) {
            #expect(try await store.data("k\(number)") == Data("\(number)".utf8))
        }
        #expect(try await store.entries(.urlPrefix("http://h/xxx")).count == 200)
    }

    // MARK: Faulty stores

    private func broken(
        _ fault: FaultyCacheStore.Fault, _ rules: [CacheStoreConformance.Rule] = CacheStoreConformance.Rule.allCases
    ) async -> [CacheStoreConformance.Rule: String] {
        let faults = await CacheStoreConformance.check(rules, timeout: .seconds(240)) { byteLimit in
            FaultyCacheStore(MemoryStore(byteLimit: byteLimit), fault)
        }
        return Dictionary(faults.map { ($0.rule, $0.message) }) { first, _ in first }
    }

    @Test func kitReportsWhatItDidNotCheck() async {
        let task = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            return await CacheStoreConformance.check([.commit, .touch]) { MemoryStore(byteLimit: $0) }
        }
        let faults = await task.value
        #expect(faults.map(\.rule) == [.commit, .touch])
        #expect(faults.allSatisfy { $0.message == "not checked to its end, because the task was cancelled" })
    }

    @Test func kitReportsASlowStore() async {
        let broken = await broken(.slow(.milliseconds(30)), [.speed, .touch, .versions])
        #expect(Set(broken.keys) == [.speed])
        #expect(broken[.speed]?.contains("the budget is 0.02 seconds") == true)
    }

    @Test(arguments: [3_600, Int64.max]) func kitReportsAHangingStore(_ seconds: Int64) async {
        let faults = await CacheStoreConformance.check([.touch], timeout: .milliseconds(50)) { _ in
            FaultyCacheStore(MemoryStore(), .slow(.seconds(seconds)))
        }
        #expect(faults.map(\.message) == ["not done after 0.05 seconds"])
    }

    @Test func kitReportsAStoreThatIgnoresItsCancellation() async {
        let mayGoOn = Event()
        let faults = await CacheStoreConformance.check([.touch], timeout: .milliseconds(50)) { _ in
            await mayGoOn.wait()
            return MemoryStore()
        }
        mayGoOn.happen()
        #expect(faults.map(\.message) == ["not done after 0.05 seconds"])
    }

    @Test func kitReportsAThrowingStore() async {
        let broken = await broken(.throwing(.cache))
        // These rules need capabilities that the store lacks.
        #expect(Set(broken.keys) == Set(CacheStoreConformance.Rule.allCases).subtracting([.inspection, .leases]))
        #expect(broken.values.allSatisfy { $0.hasPrefix("the store threw") || $0.contains("CacheEntryTooLarge") })
    }

    @Test(arguments: FaultyCacheStore.Defect.allCases) func kitReportsAFaultyStore(_ defect: FaultyCacheStore.Defect)
        async
    {
        let broken = await broken(.defective(defect))
        let (rule, word): (CacheStoreConformance.Rule, String) =
            switch defect {
            case .replacement: (.replacement, "replaced")
            case .body: (.wholeEntries, "body")
            case .key: (.wholeEntries, "never used")
            case .tags: (.removal, "tag")
            case .prefix: (.removal, "urlPrefix")
            case .touch: (.touch, "touch")
            case .version: (.versions, "same version")
            }
        #expect(broken[rule]?.contains(word) == true, "\(broken)")
        #expect(broken.count < CacheStoreConformance.Rule.allCases.count)
    }

    @Test func faultyStorePassesCareOfTheStoreOn() async throws {
        let memory = MemoryStore()
        var entry = Make.entry("a")
        entry.retainUntil = Date() - 200
        try await memory.put(entry)
        let throwing = FaultyCacheStore(memory, .throwing(.cache))
        await #expect(throws: NetworkError.self) { try await throwing.flush() }
        await #expect(throws: NetworkError.self) { try await throwing.collectGarbage() }
        let store = FaultyCacheStore(memory, .defective(.touch))
        try await store.flush()
        #expect(try await store.collectGarbage().entryCount == 1)
    }
}
