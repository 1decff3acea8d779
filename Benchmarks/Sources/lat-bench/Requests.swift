import BenchmarkSupport
import FoundationEssentials
import LATNetworking

/// Modes `central` and `latency`.
func request(_ manager: CentralRequestManager, _ arguments: Arguments) async throws {
    try await measure(arguments) { _ in
        try check(try await manager.startRequest("GET", arguments.url), arguments)
    }
}

/// Mode `urls`: 10,000 URLs that differ in their query.
func requestManyURLs(_ manager: CentralRequestManager, _ arguments: Arguments) async throws {
    try await measure(arguments) { number in
        try check(try await manager.startRequest("GET", "\(arguments.url)?n=\(number % 10_000)"), arguments)
    }
}

/// Modes `pages` and `pages-gets`: lists of 1,000 pages, which the field `Link` leads through, and the same requests one by one.
func requestPages(_ manager: CentralRequestManager, _ arguments: Arguments) async throws {
    func read(_ count: Int) async throws {
        var number = 0
        while number < count {
            if arguments.mode == "pages" {
                for try await page in manager.pages("GET", "\(arguments.url)?page=1") {
                    try check(page, arguments)
                    number += 1
                }
            } else {
                let url = "\(arguments.url)?page=\(number % 1_000 + 1)"
                try check(try await manager.startRequest("GET", url), arguments)
                number += 1
            }
        }
    }
    try await read(arguments.warmup)
    let measurement = Measurement("lat", arguments)
    try await read(arguments.requests)
    measurement.finish()
}

/// Mode `closure`.
func requestWithClosures(_ manager: CentralRequestManager, _ arguments: Arguments) async throws {
    let get: @Sendable (@escaping @Sendable ((any Error)?) -> Void) -> Void = { done in
        manager.startRequest("GET", arguments.url) { _, response in
            do {
                try check(response, arguments)
                done(nil)
            } catch {
                done(error)
            }
        } failure: { _, error in
            done(error)
        }
    }
    if arguments.warmup > 0 { _ = try await repeating(arguments.warmup, callingBack: arguments.inFlight, get) }
    let measurement = Measurement("lat", arguments)
    let latencies = try await repeating(arguments.requests, callingBack: arguments.inFlight, get)
    measurement.finish(latencies: latencies)
}

/// Mode `post`: the bytes are encoded in advance, as in curlbench.
func post(_ manager: CentralRequestManager, _ arguments: Arguments) async throws {
    let bytes = try JSONEncoder().encode(Order.ofOneKilobyte)
    try await measure(arguments) { _ in
        let body = HTTPBody.data(bytes, contentType: "application/json")
        try check(try await manager.startRequest("POST", arguments.url, body: body), arguments)
    }
}

/// Mode `post-encoded`: each request encodes a value.
func postEncoded(_ manager: CentralRequestManager, _ arguments: Arguments) async throws {
    let order = try Order.ofOneKilobyte
    try await measure(arguments) { _ in
        try check(try await manager.startRequest("POST", arguments.url, body: .json(order)), arguments)
    }
}

/// Warms up, then measures the requests of IN_FLIGHT tasks.
func measure(_ arguments: Arguments, _ work: @escaping @Sendable (_ number: Int) async throws -> Void) async throws {
    if arguments.warmup > 0 { _ = try await repeating(arguments.warmup, tasks: arguments.inFlight, work) }
    let measurement = Measurement("lat", arguments)
    let latencies = try await repeating(arguments.requests, tasks: arguments.inFlight, work)
    measurement.finish(latencies: latencies)
}

func check(_ response: HTTPResponse, _ arguments: Arguments) throws {
    guard response.status == 200, !response.data.isEmpty else {
        throw Failure("\(arguments.url): the response is not a 200 with a body")
    }
}

/// The posted value: 1,024 bytes of JSON.
private struct Order: Encodable, Sendable {
    var id = 1842
    var customer = "Ada Lovelace"
    var express = true
    var amount = 19.5
    var lines = [1, 2, 3]
    var note = ""

    static var ofOneKilobyte: Order {
        get throws {
            var order = Order()
            order.note = String(repeating: "n", count: 1_024 - (try JSONEncoder().encode(order).count))
            return order
        }
    }
}
