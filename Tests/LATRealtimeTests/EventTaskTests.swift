import Dispatch
import LATRealtime
import LATTesting
import Synchronization
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(1))) struct EventTaskTests {
    /// Records what the closures of a stream get.
    private final class Recorder: Sendable {
        let events = Log<String>()
        let ends = Log<NetworkError?>()

        func start(_ stream: EventStream<ServerSentEvent>) -> EventTask {
            stream.start { [self] _, event in
                #expect(ends.count == 0)
                events.append(event.data)
            } end: { [self] _, error in
                ends.append(error)
            }
        }
    }

    @Test func closuresGetEventsAndOneEnd() async throws {
        let server = try MockServer()
        server.enqueue(.events(.event("a", id: "1"), .event("b", id: "2")))
        let recorder = Recorder()
        let manager = try CentralRequestManager.make()
        let task = recorder.start(manager.events(server.url()))
        try await eventually { recorder.ends.count == 1 }
        #expect(recorder.events.elements == ["a", "b"])
        #expect(recorder.ends.elements[0] == nil)
        #expect(task.state == .closed && task.lastEventID == "2")
        task.cancel()
        #expect(manager.runningRequests() == 0)
        #expect(recorder.ends.count == 1)
    }

    @Test func errorsEndTheStreamOnce() async throws {
        let server = try MockServer()
        server.enqueue(.status(500))
        let manager = try CentralRequestManager.make()
        let recorder = Recorder()
        _ = recorder.start(manager.events(server.url()))
        _ = recorder.start(manager.events(server: "nowhere"))
        try await eventually { recorder.ends.count == 2 }
        #expect(Set(recorder.ends.elements.compactMap { $0?.kind }) == [.httpStatus, .unknownName])
    }

    @Test func cancelEndsWithCancelled() async throws {
        let server = try MockServer()
        server.fallback { $0.path == "/silent" ? .events(.stall) : .events(.event("a"), .stall) }
        let manager = try CentralRequestManager.make()
        let recorder = Recorder()
        let task = recorder.start(manager.events(server.url()))
        try await eventually { recorder.events.count == 1 }
        #expect(manager.runningRequests(.key(task.key)) == 1)
        task.cancel()
        task.cancel()
        try await eventually { recorder.ends.count == 1 }
        #expect(recorder.ends.elements[0]?.kind == .cancelled)
        try await server.waitUntilDisconnected()
        // Cancelled right after its start.
        let early = Recorder()
        early.start(manager.events(server.url("/silent"))).cancel()
        try await eventually { early.ends.count == 1 }
        #expect(early.ends.elements[0]?.kind == .cancelled)
        #expect(early.events.count == 0)
        // And by its key.
        let other = Recorder()
        let second = other.start(manager.events(server.url()))
        #expect(manager.cancelRequests(.key(second.key)) == 1)
        try await eventually { other.ends.count == 1 }
        #expect(other.ends.elements[0]?.kind == .cancelled)
    }

    @Test func slowClosuresDelayTheNextEvent() async throws {
        let server = try MockServer()
        server.fallback { _ in .events(.event("a"), .event("b"), .event("c")) }
        let key = DispatchSpecificKey<Bool>()
        let queue = DispatchQueue(label: "test")
        queue.setSpecific(key: key, value: true)
        let manager = try CentralRequestManager.make { $0.callbackExecutor = .queue(queue) }
        let places = Log<Bool>()
        let gate = DispatchSemaphore(value: 0)
        let task = manager.events(server.url()).start { _, event in
            places.append(DispatchQueue.getSpecific(key: key) == true)
            if event.data == "a" { gate.wait() }
        } end: { _, _ in
            places.append(DispatchQueue.getSpecific(key: key) == true)
        }
        try await eventually { places.count == 1 }
        // Cancelled while a closure runs: no other event is delivered.
        task.cancel()
        gate.signal()
        try await eventually { places.count == 2 }
        #expect(places.elements == [true, true])
        #expect(task.state == .closed)
    }

    @Test func eventThatCancelKeepsBackIsNotTheLast() async throws {
        let server = try MockServer()
        server.enqueue(.events(.event("a", id: "1"), .event("b", id: "2"), .stall))
        let queue = DispatchQueue(label: "test")
        let recorder = Recorder()
        let task = recorder.start(
            try CentralRequestManager.make { $0.callbackExecutor = .queue(queue) }.events(server.url()))
        try await eventually { recorder.events.count == 2 }
        queue.suspend()
        server.enqueue(.events(.event("c", id: "3"), .stall))
        let second = recorder.start(
            try CentralRequestManager.make { $0.callbackExecutor = .queue(queue) }.events(server.url()))
        // The event waits for the queue.
        try await eventually { second.lastEventID == "3" }
        for task in [task, second] { task.cancel() }
        queue.resume()
        try await eventually { recorder.ends.count == 2 }
        #expect(recorder.events.elements == ["a", "b"])
        #expect(task.lastEventID == "2" && second.lastEventID == "")
    }

    @Test func decodedStreamHasClosuresToo() async throws {
        struct Token: Decodable, Sendable { var text: String }
        let server = try MockServer()
        server.enqueue(.events(.event(#"{"text": "a"}"#), .event("no")))
        let texts = Log<String>()
        let ends = Log<NetworkError?>()
        try CentralRequestManager.make().events(server.url()).decoded(as: Token.self).start { _, token in
            texts.append(token.text)
        } end: { _, error in
            ends.append(error)
        }
        try await eventually { ends.count == 1 }
        #expect(texts.elements == ["a"])
        #expect(ends.elements[0]?.kind == .decoding(path: ""))
    }
}
