import FoundationEssentials
import LATNetworking
import LATTesting
import Synchronization

/// The steps of the demo. Each shows the code of the call that it makes.
struct DemoSteps: Sendable {
    let central: CentralRequestManager
    let server: MockServer
    let table: DemoTable
    let stage: DemoStage

    /// Runs all steps.
    ///
    /// - Returns: Whether each succeeded.
    func run() async throws -> Bool {
        let steps: [Step] = [
            getWithParameters, postJSON, uploadFiles, downloadStream, timeOut, cancelInClosureForm, callInParallel,
            editTheTable,
        ].map { $0() }
        let start = ContinuousClock.now
        try stage.open(address: server.baseURL)
        var succeeded = 0
        for (index, step) in steps.enumerated() {
            try stage.step(index + 1, step.title, step.call)
            let outcome = try await outcome(of: step)
            try stage.show(outcome)
            if outcome.isExpected { succeeded += 1 }
        }
        try stage.close(succeeded: succeeded, of: steps.count, after: ContinuousClock.now - start)
        return succeeded == steps.count
    }

    private struct Step {
        let title: String
        let call: String
        let run: () async throws -> DemoOutcome
    }

    /// Reports an unexpected error as the step's outcome, unless the demo was cancelled.
    private func outcome(of step: Step) async throws -> DemoOutcome {
        do {
            return try await step.run()
        } catch let error as CancellationError {
            throw error
        } catch {
            return DemoOutcome(isExpected: false, text: SafeText.line("\(error)"))
        }
    }

    // MARK: Steps

    private func getWithParameters() -> Step {
        Step(
            title: "GET with parameters",
            call: """
                let page = try await central.startRequest(
                    "GET", "/search", parameters: ["q": "swift", "page": 2])
                """
        ) {
            let page = try await central.startRequest("GET", "/search", parameters: ["q": "swift", "page": 2])
            let query = try page.json()["args"]
            return DemoOutcome(
                isExpected: query["q"].string == "swift" && query["page"].string == "2",
                text: "\(page.status) \(page.reason), try page.json()[\"args\"][\"q\"].string is "
                    + "\"\(query["q"].string ?? "nil")\"",
                timings: page.timings)
        }
    }

    private struct Order: Codable, Equatable {
        var item: String
        var count: Int
    }

    private func postJSON() -> Step {
        Step(
            title: "POST a value as JSON, decode the response",
            call: """
                struct Order: Codable { var item: String; var count: Int }
                let created = try await central.startRequest(
                    "POST", "/orders", body: .json(Order(item: "tea", count: 3)))
                """
        ) {
            let order = Order(item: "tea", count: 3)
            let created = try await central.startRequest("POST", "/orders", body: .json(order))
            let answer = try created.decode(Order.self)
            return DemoOutcome(
                isExpected: created.status == 201 && answer == order,
                text: "\(created.status) \(created.reason), try created.decode(Order.self) is the order that was sent",
                timings: created.timings)
        }
    }

    private func uploadFiles() -> Step {
        Step(
            title: "Upload two files, one from memory, one from disk",
            call: """
                let files = [UploadFile(name: "note", fileName: "note.txt", data: note),
                             UploadFile(name: "photo", path: "\(Self.photoName)")]
                try await central.startRequest("POST", "/photos", files: files,
                    progress: { bar.update($0.completed, of: $0.total) })
                """
        ) {
            let directory = try TemporaryDirectory()
            let note = Data("Two files in one request, streamed in constant memory.\n".utf8)
            let photo = try directory.writePattern(byteCount: DemoServer.uploadSize, to: Self.photoName)
            let files = [
                UploadFile(name: "note", fileName: "note.txt", data: note), UploadFile(name: "photo", path: photo),
            ]
            // A new connection, because the server gives only new ones the small buffers that make the bar visible.
            if server.bodyReadRate != nil {
                server.closeIdleConnections()
                try await server.waitUntilDisconnected()
            }
            let bar = stage.bar("uploading")
            defer { bar.clear() }
            let events = Mutex(0)
            let response = try await central.startRequest("POST", "/photos", files: files) { progress in
                bar.update(progress.completed, of: progress.total)
                events.withLock { $0 += 1 }
            }
            bar.clear()
            server.bodyReadRate = nil
            let received = try response.json()["received"].int ?? 0
            let size = Int64(note.count) + DemoServer.uploadSize
            return DemoOutcome(
                isExpected: response.status == 201 && Int64(received) > size && events.withLock { $0 > 0 },
                text:
                    "\(response.status) \(response.reason), \(Quantity.bytes(Int64(received))) as multipart/form-data",
                timings: response.timings)
        }
    }

    private static let photoName = "photo.jpg"

    private func downloadStream() -> Step {
        Step(
            title: "Download as a stream, chunk by chunk",
            call: """
                let film = try await central.stream("GET", "/film")
                for try await chunk in film.body { … }
                """
        ) {
            let bar = stage.bar("downloading")
            defer { bar.clear() }
            let start = ContinuousClock.now
            let film = try await central.stream("GET", "/film")
            let total = film.headers["Content-Length"].flatMap { Int64($0) }
            var completed: Int64 = 0
            var isIntact = true
            for try await chunk in film.body {
                isIntact = isIntact && MockPattern.firstMismatch(in: chunk, at: completed) == nil
                completed += Int64(chunk.count)
                bar.update(completed, of: total)
            }
            bar.clear()
            let time = ContinuousClock.now - start
            let rate = Quantity.rate(completed, in: time)
            return DemoOutcome(
                isExpected: isIntact && completed == DemoServer.downloadSize,
                text: "\(film.status) \(film.reason), \(Quantity.bytes(completed)) at \(rate), "
                    + (isIntact ? "every byte is right" : "but not all bytes are right"),
                timings: film.timings, total: time)
        }
    }

    private func timeOut() -> Step {
        Step(
            title: "A server that never answers, and a timeout",
            call: """
                try await central.startRequest("GET", "/stall", timeout: .milliseconds(300))
                """
        ) {
            do {
                let response = try await central.startRequest("GET", "/stall", timeout: .milliseconds(300))
                return DemoOutcome(isExpected: false, text: "\(response.status), although no response was expected")
            } catch let error as NetworkError {
                let (kind, phase) = error.kind.names
                return DemoOutcome(
                    isExpected: error.kind == .timeout(.total),
                    text: "throws NetworkError .\(kind)(.\(phase ?? "")): \(SafeText.line(error.message))",
                    timings: error.timings)
            }
        }
    }

    private func cancelInClosureForm() -> Step {
        Step(
            title: "A call with closures, cancelled",
            call: """
                let task = central.startRequest("GET", "/stall",
                    success: { task, response in … }, failure: { task, error in … })
                task.cancel()
                """
        ) {
            let events = Mutex<[String]>([])
            let asked = server.requestCount
            let (cancelled, kind) = try await withThrowingTaskGroup(of: Void.self) { _ in
                let (results, result) = AsyncStream.makeStream(of: NetworkError.Kind?.self)
                let task = central.startRequest(
                    "GET", "/stall",
                    success: { _, _ in
                        events.withLock { $0.append("success") }
                        result.yield(nil)
                    },
                    failure: { _, error in
                        events.withLock { $0.append("failure") }
                        result.yield(error.kind)
                    })
                try await server.waitForRequests(asked + 1)
                let cancelled = ContinuousClock.now
                task.cancel()
                for await kind in results { return (ContinuousClock.now - cancelled, kind) }
                throw CancellationError()
            }
            let calls = events.withLock { $0 }
            return DemoOutcome(
                isExpected: kind == .cancelled && calls == ["failure"],
                text: "failure was called once, with .\(kind.map { "\($0)" } ?? "nothing"), "
                    + "\(Quantity.duration(cancelled)) after task.cancel()")
        }
    }

    private func callInParallel() -> Step {
        Step(
            title: "A hundred calls at once",
            call: """
                for id in 1...100 {
                    group.addTask { try await central.startRequest("GET", "/items/\\(id)") }
                }
                """
        ) {
            let start = ContinuousClock.now
            let connections = server.acceptedConnections
            let answers = try await withThrowingTaskGroup(of: Bool.self) { group in
                for id in 1...100 {
                    group.addTask { try await central.startRequest("GET", "/items/\(id)").json()["id"].int == id }
                }
                return try await group.reduce(into: []) { $0.append($1) }
            }
            let time = ContinuousClock.now - start
            let rate = Int(Double(answers.count) / max(time.inSeconds, 0.000_1))
            let used = server.acceptedConnections - connections
            return DemoOutcome(
                isExpected: answers.count == 100 && answers.allSatisfy { $0 },
                text: "\(answers.count) responses, all correct, over \(used) connections",
                figures: [
                    ("total", Quantity.duration(time)), ("rate", "\(Quantity.grouped(rate)) requests/s"),
                ])
        }
    }

    private struct Search: RequestEntity, Encodable {
        static let route = Route(server: DemoTable.server)
        var q: String
    }

    private func editTheTable() -> Step {
        Step(
            title: "A request entity, its row edited between two calls",
            call: """
                struct Search: RequestEntity, Encodable {
                    static let route = Route(server: "\(DemoTable.server)")   // a row of domains.json5
                    var q: String
                }
                let before = try await Search(q: "tea").reply(on: central)
                // In the file, path: "get" becomes path: "v2/get".
                let after = try await Search(q: "tea").reply(on: central)
                """
        ) {
            let before = try await Search(q: "tea").reply(on: central)
            let edit = ContinuousClock.now
            try await table.edit()
            let delay = ContinuousClock.now - edit
            let after = try await Search(q: "tea").reply(on: central)
            let isAnswered = [before, after].allSatisfy {
                $0.model["args"]["q"].string == "tea" && $0.model["headers"]["X-App"].string == "demo"
            }
            let paths = [before, after].map { $0.response.url.dropFirst(server.baseURL.count).prefix { $0 != "?" } }
            return DemoOutcome(
                isExpected: isAnswered && paths == ["/get", "/v2/get"],
                text: "\(paths[0]) before, \(paths[1]) after, \(Quantity.duration(delay)) from the edit to the new row",
                timings: after.response.timings)
        }
    }
}
