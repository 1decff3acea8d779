import Foundation
import HTTPCore
import LATStorage
import LATTesting
import Testing

@Suite struct StoredResponseTests {
    private final class Empty: ResponseBody.Source {
        func next() async throws -> Data? { nil }
    }

    let store: ObjectStore

    init() throws { store = try ObjectStore.inMemory() }

    /// Its body would be stored as an empty one.
    @Test func streamIsRefused() throws {
        let response = HTTPResponse(status: 200, body: ResponseBody(Empty()), url: "http://h/")
        let error = #expect(throws: NetworkError.self) { try store.keep(response, forKey: "k") }
        #expect(error?.storageFailure?.reason == .value)
        #expect(try store.response(forKey: "k") == nil)
    }

    @Test func keysAreFoundByTheirFirstBytes() throws {
        for key in ["a\0b1", "a\0c", "ab", "A", "ä"] { try store.keep(Data(), forKey: key) }
        #expect(try store.responseKeys(withPrefix: "a\0b") == ["a\0b1"])
        #expect(try store.responseKeys(withPrefix: "a") == ["a\0b1", "a\0c", "ab"])
        #expect(try store.responseKeys(withPrefix: "ä") == ["ä"])
        #expect(try store.responseKeys().count == 5)
    }
}
