import FoundationEssentials
import HTTPCore
import LATClient
import Platform
import SQLite

// The handlers of answers. Those of one name run one after the other, in the order of their entries.
extension OutboxEngine {
    func setHandler(_ name: String, _ handler: @escaping Handler) {
        handlers[name] = handler
        callHandlers(name)
    }

    /// Calls the handler of the next entry that has an answer.
    ///
    /// - Parameter name: the handler; `nil` for all of them.
    func callHandlers(_ name: String?) {
        guard isSender, !isClosed else { return }
        for name in name.map({ [$0] }) ?? Array(handlers.keys) {
            guard let handler = handlers[name], !busyHandlers.contains(name) else { continue }
            let next: (OutboxRow, Data?)?
            do {
                next = try readNext(of: name)
            } catch {
                hub.send(.trouble(error))
                busyHandlers.insert(name)
                callAgain(name)
                continue
            }
            guard let (row, answer) = next else {
                // What is left is of entries that are gone.
                results = results.filter { $0.value.handler != name }
                continue
            }
            busyHandlers.insert(name)
            let result = results[row.id]?.result ?? Self.result(row, answer)
            let entry = entry(row)
            runningHandlers += 1
            Task { [self] in
                do {
                    try await Self.$handling.withValue(ObjectIdentifier(self)) { try await handler(entry, result) }
                    perform { $0.handled(row, name) }
                } catch {
                    perform { $0.handlerFailed(row, name, error) }
                }
            }
        }
    }

    /// The next entry of which a handler has to be told, and what is kept of its answer.
    private func readNext(of name: String) throws(NetworkError) -> (OutboxRow, Data?)? {
        try reading { connection in
            try connection.use(
                "SELECT \(OutboxStore.columns), answer FROM entries WHERE told = 0 AND handler = ? ORDER BY place LIMIT 1"
            ) { row -> (OutboxRow, Data?)? in
                row.bind(1, text: name)
                guard try row.step() else { return nil }
                return (OutboxRow(row), row.isNull(18) ? nil : row.data(18))
            }
        }
    }

    private func handled(_ row: OutboxRow, _ name: String) {
        runningHandlers -= 1
        handlerFailures[name] = nil
        do {
            let isTold = try recording { transaction in
                if row.state == .answered {
                    try transaction.remove(row)
                    return true
                }
                // One that was retried meanwhile may have ended again, which the handler has not been told.
                try transaction.connection.run(
                    "UPDATE entries SET told = 1 WHERE id = ?1 AND state = ?2 AND place = ?3"
                ) {
                    $0.bind(1, row.id)
                    $0.bind(2, row.state.number)
                    $0.bind(3, row.place)
                }
                return transaction.connection.changeCount > 0
            }
            if isTold { results[row.id] = nil }
        } catch {
            // It is called again, as after a crash.
            hub.send(.trouble(error))
            return callAgain(name)
        }
        if row.state == .answered { removeFiles(of: row) }
        store.keepReserve()
        busyHandlers.remove(name)
        callHandlers(name)
    }

    private func handlerFailed(_ row: OutboxRow, _ name: String, _ error: any Error) {
        runningHandlers -= 1
        hub.send(.handlerFailed(entry(row), error))
        callAgain(name)
    }

    private func callAgain(_ name: String) {
        let failures = (handlerFailures[name] ?? 0) + 1
        handlerFailures[name] = failures
        let pause = rule.backoff.pause(afterFailures: failures)
        Task { [weak self] in
            try? await CallClock.continuous.sleep(pause)
            self?.perform { engine in
                engine.busyHandlers.remove(name)
                engine.callHandlers(name)
            }
        }
    }

    // MARK: What is kept of a response

    private static let bodyLimit = 64 << 10

    /// A response as it is kept for the handler after a crash, and with dead letters: without its secrets, and with the
    /// beginning of the body.
    func answer(_ response: HTTPResponse, _ flight: Flight) -> Data {
        let secrets = central.configuration.secrets.union(flight.secrets)
        var headers = response.headers
        headers.removeAll { name in secrets.contains(header: name) }
        let head: JSONValue = [
            "status": .int(Int64(response.status)), "url": .string(URLParts.redacted(response.url)),
            "headers": headers.kept() ?? .array([]),
        ]
        var data = (try? head.data()) ?? Data()
        data.append(0x0A)
        return data + response.data.prefix(Self.bodyLimit)
    }

    static func response(_ answer: Data) -> HTTPResponse? {
        guard let end = answer.firstIndex(of: 0x0A), let head = try? JSONValue(parsing: answer[..<end]) else {
            return nil
        }
        return HTTPResponse(
            status: head["status"]?.int ?? 0, headers: HTTPHeaders(kept: head["headers"]),
            body: ResponseBody(Data(answer[answer.index(after: end)...])), url: head["url"]?.string ?? "")
    }

    /// The result of an entry from what is kept of it.
    static func result(_ row: OutboxRow, _ answer: Data?) -> Result<HTTPResponse, NetworkError> {
        let response = answer.flatMap(response)
        if row.state == .answered { return .success(response ?? HTTPResponse(status: row.status ?? 200, url: "")) }
        if row.state == .expired { return .failure(expired(row)) }
        let kind: NetworkError.Kind = response == nil ? .other : .httpStatus
        return .failure(NetworkError(kind, message: row.reason ?? "the entry was refused", response: response))
    }
}
