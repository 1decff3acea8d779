import FoundationEssentials
import LATNetworking
import LATTesting
import Synchronization

/// The steps of the demo. Each shows the code of the call that it makes.
package struct DemoSteps: Sendable {
    let central: CentralRequestManager
    let server: MockServer
    let table: DemoTable
    let output: any DemoDisplay

    package init(central: CentralRequestManager, server: MockServer, table: DemoTable, output: any DemoDisplay) {
        self.central = central
        self.server = server
        self.table = table
        self.output = output
    }

    /// Runs all steps, and returns whether all of them succeeded.
    package func run() async throws -> Bool {
        let steps: [Step] = [
            getWithParameters, postJSON, startAnObject, uploadFiles, resumeADownload, hitTheCache, timeOut,
            cancelInClosureForm, callInParallel, editTheTable,
        ].map { $0() }
        let start = ContinuousClock.now
        try output.open(address: server.baseURL)
        var succeeded = 0
        for (index, step) in steps.enumerated() {
            try output.step(index + 1, step.title, step.call)
            let outcome = try await outcome(of: step)
            try output.show(outcome)
            if outcome.isExpected { succeeded += 1 }
        }
        try output.close(succeeded: succeeded, of: steps.count, after: ContinuousClock.now - start)
        return succeeded == steps.count
    }

    struct Step {
        let title: String
        let call: String
        let run: () async throws -> DemoOutcome
    }

    /// Reports an unexpected error as the outcome of the step, unless the demo was cancelled.
    private func outcome(of step: Step) async throws -> DemoOutcome {
        do {
            return try await step.run()
        } catch let error as CancellationError {
            throw error
        } catch {
            return DemoOutcome(isExpected: false, text: "\(error)")
        }
    }

    // MARK: Steps

    private func getWithParameters() -> Step {
        Step(
            title: "A call by its address: GET with parameters",
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
            title: "POST a value as JSON, and decode the response",
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

    private struct PlaceOrder: RequestEntity, Encodable {
        typealias Model = Order
        static let route = Route("POST", domain: DemoTable.domain, path: "orders")
        var item: String
        var count: Int
    }

    private func startAnObject() -> Step {
        Step(
            title: "The call as an object, which starts itself",
            call: """
                struct PlaceOrder: RequestEntity, Encodable {
                    typealias Model = Order
                    static let route = Route("POST", domain: "\(DemoTable.domain)", path: "orders")
                    var item: String
                    var count: Int
                }
                let reply = try await PlaceOrder(item: "tea", count: 3).reply(on: central)
                """
        ) {
            let reply = try await PlaceOrder(item: "tea", count: 3).reply(on: central)
            return DemoOutcome(
                isExpected: reply.response.status == 201 && reply.model == Order(item: "tea", count: 3),
                text: "\(reply.response.status) \(reply.response.reason), reply.model is an Order",
                timings: reply.response.timings)
        }
    }

    private func hitTheCache() -> Step {
        Step(
            title: "A cache hit: the second call does not ask the server",
            call: """
                let cities = try await central.startRequest(
                    "GET", "/cities", cache: .cacheElseNetwork(.forever))
                // Then the same call again.
                """
        ) {
            let asked = server.requestCount
            var sources: [String] = []
            var times: [Duration] = []
            for _ in 1...2 {
                let start = ContinuousClock.now
                let cities = try await central.startRequest(
                    "GET", "/cities", cache: .cacheElseNetwork(.forever))
                times.append(ContinuousClock.now - start)
                sources.append("\(cities.source)")
            }
            return DemoOutcome(
                isExpected: server.requestCount == asked + 1 && sources == ["network", "memoryCache"],
                text: "cities.source is .\(sources.joined(separator: ", then ."))",
                figures: [("first", output.duration(times[0])), ("second", output.duration(times[1]))])
        }
    }

    private func timeOut() -> Step {
        Step(
            title: "A server that never responds, and a timeout",
            call: """
                try await central.startRequest("GET", "/stall", timeout: .milliseconds(300))
                """
        ) {
            do {
                let response = try await central.startRequest("GET", "/stall", timeout: .milliseconds(300))
                return DemoOutcome(isExpected: false, text: "\(response.status), although no response was expected")
            } catch let error as NetworkError {
                return DemoOutcome(
                    isExpected: error.kind == .timeout(.total),
                    text: "throws NetworkError .\(error.kind): \(error.message)",
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
            guard let kind = await results.first(where: { _ in true }) else { throw CancellationError() }
            let time = ContinuousClock.now - cancelled
            let calls = events.withLock { $0 }
            return DemoOutcome(
                isExpected: kind == .cancelled && calls == ["failure"],
                text: "failure was called once, with .\(kind.map { "\($0)" } ?? "nothing"), "
                    + "\(output.duration(time)) after task.cancel()")
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
            let rate = Int(Double(answers.count) / max(time / .seconds(1), 0.000_1))
            let used = server.acceptedConnections - connections
            return DemoOutcome(
                isExpected: answers.count == 100 && answers.allSatisfy { $0 },
                text: "\(answers.count) responses, all correct, over \(used) connections",
                figures: [
                    ("total", output.duration(time)), ("rate", "\(output.grouped(rate)) requests/s"),
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
                text: "\(paths[0]) before, \(paths[1]) after, \(output.duration(delay)) from the edit to the new row",
                timings: after.response.timings)
        }
    }
}
