import Foundation
import HTTPCore
import LATStorage
import LATTesting
import TestSupport
import Testing

extension PreferenceKey<Int> {
    static var counter: Self { Self("counter", default: 0) }
    static func own(_ number: Int) -> Self { Self("own \(number)", default: 0) }
}

private struct Account: Codable, Identifiable, Sendable { var id: Int; var balance: Int }

/// The tasks of child processes. In the process that runs the tests, this suite is disabled.
@Suite struct StorageRoles {
    @Test(.enabled(if: RoleProcess.isRole(of: "StorageRoles"), "runs only in child processes"))
    func runsItsRole() async throws { await RoleProcess.play(run) }

    private func run(_ role: String, _ arguments: [String]) throws {
        switch role {
        case "count":
            let store = try ObjectStore(path: arguments[0], busyTimeout: .seconds(60))
            for _ in 0..<100 {
                try store.transaction { transaction in
                    var account = try transaction.fetch(Account.self, id: 1) ?? Account(id: 1, balance: 0)
                    account.balance += 1
                    try transaction.upsert(account)
                }
            }
        case "transfer":
            // Runs until it is killed. The sum of all accounts is the same after every transaction.
            let store = try ObjectStore(path: arguments[0], busyTimeout: .seconds(60))
            RoleProcess.say("ready")
            var random = SeededGenerator(seed: UInt64(arguments[1]) ?? 0)
            while true {
                try store.transaction { transaction in
                    for _ in 0..<20 {
                        let amount = Int.random(in: 1...9, using: &random)
                        for (id, change) in [
                            (Int.random(in: 0..<50, using: &random), -amount),
                            (Int.random(in: 0..<50, using: &random), amount),
                        ] {
                            guard var account = try transaction.fetch(Account.self, id: id) else { continue }
                            account.balance += change
                            try transaction.update(account)
                        }
                    }
                }
                RoleProcess.say(".")
            }
        case "insert": try ObjectStore(path: arguments[0]).insert(User(Int(arguments[1]) ?? 0))
        case "leave":
            // Files with relative paths, and another current folder afterwards.
            guard chdir(arguments[0]) == 0 else { throw NetworkError(.other, message: "no folder") }
            let store = try ObjectStore(path: "objects.sqlite")
            let preferences = Preferences(path: "preferences.json")
            try store.insert(User(1))
            guard chdir("other") == 0, try store.count(User.self) == 1 else {
                throw NetworkError(.other, message: "an empty store is read")
            }
            try preferences.set(.counter, to: 1)
        case "old notes": try VersionTests.raiseNotes(arguments[0], areNew: false)
        case "new notes": try VersionTests.raiseNotes(arguments[0], areNew: true)
        case "prefer":
            let preferences = Preferences(path: arguments[0])
            for _ in 0..<50 {
                try preferences.update { $0[.counter] += 1 }
                try preferences.update { $0[.own(Int(arguments[1]) ?? 0)] += 1 }
            }
        case "prefer forever":
            let preferences = Preferences(path: arguments[0])
            RoleProcess.say("ready")
            while true {
                try preferences.update {
                    $0[.counter] += 1
                    $0[.own(1)] = $0[.counter]
                }
                RoleProcess.say(".")
            }
        default: throw NetworkError(.other, message: "no role")
        }
    }
}

@Suite struct ProcessTests {
    let directory: TemporaryDirectory
    var path: String { directory.path(of: "objects.sqlite") }

    init() throws { directory = try TemporaryDirectory() }

    @Test func concurrentProcessesLoseNoWrite() throws {
        let children = try (0..<3).map { _ in try RoleProcess("count", [path], of: "StorageRoles") }
        for child in children {
            let (text, code) = child.finish()
            #expect(code == 0, "\(text)")
        }
        #expect(try ObjectStore(path: path).fetch(Account.self, id: 1)?.balance == 300)
    }

    @Test func relativePathsStayTheSame() throws {
        try directory.write(Data(), to: "other/file")
        let (text, code) = try RoleProcess("leave", [directory.path], of: "StorageRoles").finish()
        #expect(code == 0, "\(text)")
        #expect(Preferences(path: directory.path(of: "preferences.json"))[.counter] == 1)
        #expect(directory.contents.filter { $0.hasPrefix("other/") } == ["other/file"])
    }

    @Test func killedProcessLeavesWholeTransactions() throws {
        try ObjectStore(path: path).insert(contentsOf: (0..<50).map { Account(id: $0, balance: 100) })
        var random = SeededGenerator(seed: 7)
        for round in 0..<6 {
            let child = try RoleProcess("transfer", [path, "\(round)"], of: "StorageRoles")
            for _ in 0..<Int.random(in: 1...12, using: &random) { #expect(!child.read().isEmpty) }
            child.kill()
            let store = try ObjectStore(path: path)
            try store.verify()
            #expect(try store.count(Account.self) == 50)
            #expect(try store.sum(of: \Account.balance) == 5_000)
        }
    }

    @Test func observerSeesOtherProcesses() async throws {
        let store = try ObjectStore(path: path)
        try store.insert(User(1))
        var iterator = store.values(of: User.self, sortedBy: [.ascending(\.id)]).makeAsyncIterator()
        #expect(try await iterator.next()?.map(\.id) == [1])
        try store.insert(User(2))
        var seen = try await iterator.next()?.map(\.id)
        while seen == [1] { seen = try await iterator.next()?.map(\.id) }
        #expect(seen == [1, 2])
        let child = try RoleProcess("insert", [path, "3"], of: "StorageRoles")
        #expect(child.finish().code == 0)
        while seen == [1, 2] { seen = try await iterator.next()?.map(\.id) }
        #expect(seen == [1, 2, 3])
        store.close()
        #expect(try await iterator.next() == nil)
    }

    @Test func observerEndsWhenTheStoreIsClosed() async throws {
        let store = try ObjectStore.inMemory()
        // The observer has its first signal, but no query has run.
        var iterator = store.values(of: User.self).makeAsyncIterator()
        store.close()
        #expect(try await iterator.next() == nil)
    }

    @Test func observerEndsWithItsTask() async throws {
        let store = try ObjectStore.inMemory()
        let (started, signal) = AsyncStream<Void>.makeStream()
        let task = Task {
            for try await _ in store.values(of: User.self) { signal.yield() }
        }
        for await _ in started { break }
        task.cancel()
        try await task.value
    }

    @Test func preferencesOfProcessesLoseNoUpdate() throws {
        let path = directory.path(of: "preferences.json")
        let children = try (0..<3).map { try RoleProcess("prefer", [path, "\($0)"], of: "StorageRoles") }
        for child in children {
            let (text, code) = child.finish()
            #expect(code == 0, "\(text)")
        }
        let preferences = Preferences(path: path)
        #expect(preferences[.counter] == 150)
        for number in 0..<3 { #expect(preferences[.own(number)] == 50) }
    }

    @Test func killedProcessLeavesWholePreferences() throws {
        let path = directory.path(of: "preferences.json")
        var random = SeededGenerator(seed: 5)
        var last = 0
        for _ in 0..<6 {
            let child = try RoleProcess("prefer forever", [path], of: "StorageRoles")
            for _ in 0..<Int.random(in: 1...12, using: &random) { #expect(!child.read().isEmpty) }
            child.kill()
            let preferences = Preferences(path: path) { Issue.record("\($0)") }
            #expect(preferences[.counter] == preferences[.own(1)])
            #expect(preferences[.counter] >= last)
            last = preferences[.counter]
        }
        #expect(last > 0)
    }

    @Test func preferenceObserverSeesOtherProcesses() async throws {
        let path = directory.path(of: "new/preferences.json")
        let preferences = Preferences(path: path)
        var values = preferences.values(of: .counter).makeAsyncIterator()
        #expect(await values.next() == 0)
        let child = try RoleProcess("prefer", [path, "1"], of: "StorageRoles")
        #expect(child.finish().code == 0)
        var value = await values.next()
        while let seen = value, seen < 50 { value = await values.next() }
        #expect(value == 50)
    }
}
