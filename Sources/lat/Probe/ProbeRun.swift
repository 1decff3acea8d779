import LATNetworking

/// One run of `lat probe`.
struct ProbeRun {
    private let command: ProbeCommand
    private let console: Console

    init(_ command: ProbeCommand, _ console: Console) {
        self.command = command
        self.console = console
    }

    func run() async throws -> ExitCode {
        let manager = try manager()
        return command.watches ? try await watch(manager) : try await once(manager)
    }

    private func manager() throws -> CentralRequestManager {
        var configuration = CentralRequestManager.Configuration()
        // A table is looked for only when a name needs it.
        if command.table.file != nil || command.targets.contains(where: { !$0.contains("://") }) {
            configuration.domains = try command.table.read()
        }
        if let proxy = command.proxy { configuration.proxy = proxy.isEmpty ? .none : .url(proxy) }
        configuration.reachability.timeout = command.timeout
        configuration.reachability.check = command.check
        configuration.reachability.ttl = command.interval
        configuration.reachability.failureTTL = min(command.interval, .seconds(1))
        return try CentralRequestManager(configuration: configuration)
    }

    // MARK: Once

    private func once(_ manager: CentralRequestManager) async throws -> ExitCode {
        let reports = try await reports(manager)
        try Task.checkCancellation()
        let table = ProbeTable(reports: reports)
        if command.format == .json {
            try console.print(table.json)
        } else {
            for line in table.lines(console.outStyle) { try console.print(line) }
            for report in reports {
                if let error = report.error { console.complain("\(report.target): \(error.message)") }
            }
        }
        return reports.allSatisfy(\.status.isReachable) ? .success : .network
    }

    /// All at once, in the order they were named.
    ///
    /// - Throws: ``UsageError`` for a name that is not there.
    private func reports(_ manager: CentralRequestManager) async throws -> [ReachabilityReport] {
        let reachability = manager.reachability
        let found = await withTaskGroup(of: (Int, ReachabilityReport).self) { group in
            for (index, target) in command.targets.enumerated() {
                group.addTask { (index, await reachability.report(of: target)) }
            }
            return await group.reduce(into: [:]) { $0[$1.0] = $1.1 }
        }
        let reports = command.targets.indices.compactMap { found[$0] }
        for report in reports where report.status.reason == .unknownName {
            throw UsageError(report.error?.message ?? "\"\(report.target)\" cannot be probed")
        }
        return reports
    }

    // MARK: Watching

    private func watch(_ manager: CentralRequestManager) async throws -> ExitCode {
        let reachability = manager.reachability
        let view = ProbeView(console, command.format)
        var reports = try await reports(manager)
        try view.show(reports, changed: nil)
        // Names may stand twice on the command line; each is followed once.
        let targets = Set(command.targets)
        let (changes, continuation) = AsyncStream.makeStream(of: ReachabilityReport.self)
        let followers = targets.map { target in
            Task {
                for await _ in reachability.updates(of: target) {
                    continuation.yield(await reachability.report(of: target))
                }
                continuation.finish()
            }
        }
        defer { for follower in followers { follower.cancel() } }
        for await report in changes {
            for index in reports.indices where reports[index].target == report.target {
                let isNews =
                    ProbeTable.words(reports[index].status) != ProbeTable.words(report.status)
                    || reports[index].status.address != report.status.address
                reports[index] = report
                try view.show(reports, changed: isNews ? index : nil)
            }
        }
        return .interrupted
    }
}
