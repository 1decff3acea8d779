import FoundationEssentials
import Glibc
import LATTesting
import TestSupport
import Testing

@testable import LATClient
@testable import LATTransfers

/// The tasks of child processes.
@Suite struct OutboxRoles {
    @Test(.enabled(if: RoleProcess.isRole(of: "OutboxRoles"), "runs only in child processes"))
    func runsItsRole() async throws { await RoleProcess.play(run) }

    private func run(_ role: String, _ arguments: [String]) async throws {
        let central = try CentralRequestManager.make()
        switch role {
        // Adds entries one by one, and says the number of each when it is on the disk. It does not send.
        case "add":
            var configuration = Outbox.Configuration()
            configuration.limit = 0
            let outbox = try Outbox(folder: arguments[0], manager: central, configuration: configuration)
            for number in 0... {
                try await outbox.add(HTTPRequest("POST", arguments[1], body: .text("\(number)")), group: "numbers")
                RoleProcess.say("\(number)\n")
            }
        case "handle on a full disk": try await handleOnFullDisk(arguments[0], arguments[1], central)
        case "grow log": try await growLog(in: arguments[0], central)
        case "send":
            let outbox = try Outbox(
                folder: arguments[0], manager: central, configuration: OutboxChaosTests.configuration)
            while try await !outbox.load.isSender { try await Task.sleep(for: .milliseconds(20)) }
            RoleProcess.say("ready\n")
            try await Task.sleep(for: .seconds(600))
        case "add and send 0", "add and send 1": try await addAndSend(role.suffix(1), arguments)
        case "finish":
            let outbox = try Outbox(
                folder: arguments[0], manager: central, configuration: OutboxChaosTests.configuration)
            var refused: [Outbox.Entry]
            repeat {
                try await outbox.waitUntilSent()
                refused = try await outbox.entries([.refused])
                for entry in refused { try await outbox.retry(entry.id) }
            } while !refused.isEmpty
            let (entries, size) = (try await outbox.entries.count, try await outbox.load.size)
            RoleProcess.say("\(entries) entries of \(size) bytes, \(outbox.damage?.message ?? "no damage")")
            await outbox.close()
        default: throw NetworkError(.other, message: "no role")
        }
    }

    /// Has a handler called on a full disk, and says how often, and whether all can be sent again there.
    private func handleOnFullDisk(_ folder: String, _ url: String, _ central: CentralRequestManager) async throws {
        var configuration = OutboxChaosTests.configuration
        (configuration.firstWait, configuration.longestWait) = (.milliseconds(5), .seconds(600))
        let outbox = try Outbox(folder: folder, manager: central, configuration: configuration)
        let id = try await outbox.add(HTTPRequest("POST", url), handler: "h")
        let busy = try await outbox.add(HTTPRequest("POST", url.replacing("/x", with: "/busy")))
        while try await outbox.entry(id)?.state != .answered { try await Task.sleep(for: .milliseconds(5)) }
        while try await outbox.entry(busy)?.attempts ?? 0 < 8 { try await Task.sleep(for: .milliseconds(5)) }
        // Room of the log would do, too.
        outbox.engine.makeRoom()
        OutboxRoomTests.fill(folder)
        let calls = Log<Int64>()
        outbox.handle("h") { entry, _ in calls.append(entry.id) }
        while try await outbox.entry(id) != nil, calls.count < 3 { try await Task.sleep(for: .milliseconds(5)) }
        RoleProcess.say("\(calls.count) call, ")
        unlink(folder + "/filler")
        try await outbox.engine.value { $0.store.keepReserve() }
        outbox.engine.makeRoom()
        OutboxRoomTests.fill(folder)
        RoleProcess.say("sent again: \((try? await outbox.sendNow()) != nil)")
        await outbox.close()
    }

    /// Fills the disk while the log of the store is long, and says what can be added then.
    private func growLog(in folder: String, _ central: CentralRequestManager) async throws {
        var configuration = Outbox.Configuration()
        configuration.limit = 0
        let outbox = try Outbox(folder: folder, manager: central, configuration: configuration)
        let request = HTTPRequest("POST", "http://127.0.0.1:9/")
        var free: Int {
            var disk = statvfs()
            return statvfs(folder, &disk) == 0 ? Int(disk.f_bavail * disk.f_frsize) : 0
        }
        func grow() async throws {
            var log = stat()
            while stat(folder + "/outbox.sqlite-wal", &log) == 0, log.st_size < 600_000 {
                try await outbox.drop(try await outbox.add(request))
            }
        }
        let filler = open(folder + "/filler", O_WRONLY | O_CREAT | O_CLOEXEC, 0o600)
        func fill(but left: Int) { _ = posix_fallocate(filler, 0, off_t(free - left)) }
        try await grow()
        fill(but: 0)
        RoleProcess.say("\(free) bytes free: entry \(try await outbox.add(request) > 0), ")
        ftruncate(filler, 0)
        try await grow()
        var large = request
        large.body = .data(Data(repeating: 1, count: free + 200_000))
        let number = try await outbox.add(large)
        RoleProcess.say("a file of \(try await outbox.entry(number)?.size ?? 0 > 1_000_000), ")
        try await outbox.drop(number)
        try await grow()
        // As another process leaves the folder that has recorded something on the full disk.
        fill(but: 400_000)
        unlink(folder + "/reserve")
        try await outbox.add(request)
        RoleProcess.say("\(try await outbox.entries.count) entries, reserve: \(access(folder + "/reserve", F_OK))")
        close(filler)
        await outbox.close()
    }

    /// Sends until it is killed. The keys are those of the entries, so a restart adds none again that is still there.
    private func addAndSend(_ index: Substring, _ arguments: [String]) async throws {
        let central = try CentralRequestManager.make { $0.timeout = .seconds(1) }
        // The numbers that this process added before it was killed are in a file.
        let path = arguments[3] + index
        let start = (try? String(contentsOf: URL(filePath: path), encoding: .utf8)).flatMap { Int($0) } ?? 0
        let outbox = try await repeatingWhileFull {
            try Outbox(folder: arguments[0], manager: central, configuration: OutboxChaosTests.configuration)
        }
        let meddling = Task { await meddle(outbox) }
        for number in start..<(Int(arguments[2]) ?? 0) {
            let group = "\(index)\(number % 2)"
            let kept = arguments[4] == "groups" ? group : nil
            var request = HTTPRequest("POST", arguments[1], body: .text("\(group)-\(number)"))
            request.idempotencyKey = "key-\(index)-\(number)"
            _ = try await repeatingWhileFull { [request] in
                // An hour by the clock that nobody sets.
                try await outbox.add(request, group: kept, expires: .seconds(3_600))
            }
            if number % 5 == 0 { try await add("again-\(index)-\(number)", to: outbox, arguments[1]) }
            if number % 5 == 1 { try await add("drop-\(index)-\(number)", to: outbox, arguments[1]) }
            try Data("\(number + 1)".utf8).write(to: URL(filePath: path), options: .atomic)
        }
        try await Task.sleep(for: .seconds(600))
        meddling.cancel()
        await outbox.close()
    }

    /// Adds an entry with a body in a file, unless it is there already.
    private func add(_ key: String, to outbox: Outbox, _ url: String) async throws {
        var request = HTTPRequest("POST", url, body: .text(key + " " + String(repeating: "x", count: 70_000)))
        request.idempotencyKey = key
        do {
            _ = try await repeatingWhileFull { [request] in try await outbox.add(request) }
        } catch let error as NetworkError {
            guard case .deadLetter? = error.outboxFailure else { throw error }
        }
    }

    /// Retries dead letters and entries that wait for their next attempt, and drops entries that may be lost, although one of
    /// them may be in flight. Others do the same at the same time, so it may be gone already.
    private func meddle(_ outbox: Outbox) async {
        while (try? await Task.sleep(for: .milliseconds(20))) != nil {
            guard let entry = try? await outbox.entries.randomElement() else { continue }
            if entry.idempotencyKey.hasPrefix("drop-") {
                try? await outbox.drop(entry.id)
            } else if entry.state == .refused || entry.nextAttempt != nil {
                try? await outbox.retry(entry.id)
            }
        }
    }

    private func repeatingWhileFull<Value>(_ body: () async throws -> Value) async throws -> Value {
        while true {
            do { return try await body() } catch let error as NetworkError where error.outboxFailure == .diskFull {
                try await Task.sleep(for: .milliseconds(20))
            }
        }
    }
}
