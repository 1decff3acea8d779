import HTTPCore
import Synchronization

// What is kept of the upload for the next run, and the removal of what is not.
extension UploadJob {
    /// Continues an earlier run, or removes from the server what cannot be continued.
    func takeEarlierRun() async throws {
        if let removal = files.removal, await remove(removal) { files.removeRemoval() }
        guard let journal = files.journal else { return files.removeJournal() }
        guard order.upload.resumesEarlierRun, !journal.isRemoved, journal.file == version else {
            if order.upload.resumesEarlierRun, !journal.isRemoved {
                monitor.resumption.withLock { $0?.restart = .fileChanged }
            }
            return await remove(journal) ? files.removeJournal() : files.setAsideJournal()
        }
        state.withLock { state in
            state.plan.resume(from: journal)
            state.written = journal
            state.unasked = Set(state.plan.lanes.indices)
        }
    }

    /// Notes where the upload is, and what an earlier run has sent when the server tells it for the first time.
    func noteResumption(_ state: inout State, _ step: UploadPlan.Step) {
        var earlier: Int64 = 0
        switch step {
        case .ask(let lane): if state.unasked.remove(lane) != nil { earlier = state.plan.lanes[lane].size }
        case .list where state.plan.serialStep?.isQuestion != true && !state.unasked.isEmpty:
            state.unasked = []
            earlier = state.plan.stored
        case .probe, .create, .begin, .list, .send, .complete, .verify: break
        }
        monitor.resumption.withLock {
            $0?.byteCount += earlier
            $0?.canContinue = state.plan.hasUpload
            if let url = state.plan.url(order.request.url, state.response) { $0?.url = url }
        }
    }

    private func remove(_ journal: UploadJournal) async -> Bool {
        var plan = UploadPlan(total: journal.file.size, order.upload)
        plan.resume(from: journal)
        return await remove(plan)
    }

    /// Writes the journal if it has changed.
    func writeJournal() throws(NetworkError) {
        try journaling.withLock { _ throws(NetworkError) in
            let journal = state.withLock { state in
                state.isOver ? nil : state.plan.journal(identity: files.identity, version)
            }
            guard let journal, journal != state.withLock(\.written) else { return }
            try files.write(journal)
            state.withLock { $0.written = journal }
        }
    }

    /// Changes the journal for the last time. None is written afterwards, such as for an interim response that came late.
    func end(_ change: () -> Void) {
        journaling.withLock { _ in
            state.withLock { $0.isOver = true }
            change()
        }
    }

    /// Removes the upload from the server and then its journal. As long as the server cannot be told, the journal says so, and
    /// the next run of the same upload tells it.
    func discard() async -> Bool {
        let plan = state.withLock(\.plan)
        end {
            guard var journal = plan.journal(identity: files.identity, version) else { return files.removeJournal() }
            journal.isRemoved = true
            try? files.write(journal)
        }
        guard await remove(plan) else { return false }
        files.removeJournal()
        return true
    }

    /// How long an upload that has ended waits for its removal. The journal tells the next run of the rest.
    private static let removalLimit = Duration.seconds(30)

    /// Removes what the server has, side by side.
    ///
    /// - Returns: `false` if it is worth another attempt later.
    func remove(_ plan: UploadPlan) async -> Bool {
        let messages = dialect.removal(of: plan)
        guard !messages.isEmpty else { return true }
        let (order, remainder) = (order, dialect.remainder(of: plan))
        // Not a child task, because this one may be cancelled.
        return await Task {
            await withTaskGroup(of: Bool?.self) { group in
                for message in messages { group.addTask { await order.remove(message, remainder) } }
                group.addTask {
                    try? await Task.sleep(for: Self.removalLimit)
                    return nil
                }
                var isGone = true
                for _ in messages {
                    guard let result = await group.next() ?? nil else {
                        isGone = false
                        break
                    }
                    isGone = isGone && result
                }
                group.cancelAll()
                return isGone
            }
        }.value
    }
}
