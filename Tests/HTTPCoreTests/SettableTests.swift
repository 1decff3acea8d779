import Foundation
import HTTPCore
import Testing

@Suite struct SettableTests {
    struct Patch: Codable, Equatable, Sendable {
        var name: Settable<String> = .leftOut
        var age: Settable<Int> = .leftOut
        var at: Settable<Date> = .leftOut
        var tags: Settable<[String]> = .leftOut
        var nested: Settable<Inner> = .leftOut
        var maybe: Settable<Bool>?
    }

    struct Inner: Codable, Equatable, Sendable {
        var note: Settable<String> = .leftOut
    }

    private func json(_ value: some Encodable, _ coding: Coding = Coding()) throws -> String {
        try JSONValue(encoding: value, coding: coding).description
    }

    private func foundation() -> (JSONEncoder, JSONDecoder) {
        let (encoder, decoder) = (JSONEncoder(), JSONDecoder())
        encoder.outputFormatting = .sortedKeys
        (encoder.dateEncodingStrategy, decoder.dateDecodingStrategy) = (.iso8601, .iso8601)
        return (encoder, decoder)
    }

    @Test func threeStatesAreThreeDocuments() throws {
        #expect(try json(Patch()) == "{}")
        #expect(
            try json(Patch(name: .null, nested: .value(Inner(note: .null)))) == #"{"name":null,"nested":{"note":null}}"#
        )
        let set = Patch(name: "Ada", age: 36, at: .value(Date(timeIntervalSince1970: 0)), tags: .value([]), maybe: true)
        #expect(try json(set) == #"{"age":36,"at":"1970-01-01T00:00:00Z","maybe":true,"name":"Ada","tags":[]}"#)
        #expect(try json(set, Coding(dates: .unixSeconds)).contains(#""at":0"#))
    }

    struct Folder: Codable, Hashable, Sendable {
        @Coding.Boxed var parent: Settable<Folder> = .leftOut
        var name: String?
    }

    @Test(arguments: ["{}", #"{"parent":null}"#, #"{"name":"b","parent":{"name":"a","parent":{"parent":null}}}"#])
    func boxHasThreeStates(_ text: String) throws {
        let (encoder, decoder) = foundation()
        let folder = try JSONValue(parsing: text).decode(Folder.self)
        #expect(try decoder.decode(Folder.self, from: Data(text.utf8)) == folder)
        #expect(try json(folder) == text && String(decoding: encoder.encode(folder), as: UTF8.self) == text)
        let members = try #require(try EncodedMembers(deferring: folder))
        #expect(try JSONValue.object(members.object) == JSONValue(parsing: text))
    }

    /// Both ways, by this library and by Foundation, each reading what the other writes.
    @Test func randomPatchesSurviveBothCoders() throws {
        var random = SplitMix64(state: 46)
        let (encoder, decoder) = foundation()
        func pick<Value>(_ value: Value) -> Settable<Value> {
            [.leftOut, .null, .value(value)].randomElement(using: &random)!
        }
        for round in 0..<1_000 {
            let patch = Patch(
                name: pick("n\(round)"), age: pick(round), at: pick(Date(timeIntervalSince1970: Double(round))),
                tags: pick(["a", "b"]), nested: pick(Inner(note: pick("x"))),
                maybe: .random(using: &random) ? pick(true) : nil)
            let ours = try JSONValue(encoding: patch)
            let theirs = try encoder.encode(patch)
            #expect(String(decoding: theirs, as: UTF8.self) == ours.description)
            var expected = patch
            if expected.maybe == .leftOut { expected.maybe = nil }
            #expect(try ours.decode(Patch.self) == expected && decoder.decode(Patch.self, from: theirs) == expected)
        }
    }

    @Test func parametersQueriesAndEntitiesHaveTheStates() throws {
        let parameters: Parameters = [
            "a": Settable<Int>.leftOut, "b": Settable<Int>.null, "c": Settable.value(7), "d": nil,
        ]
        for members in [try EncodedMembers(parameters: parameters), try EncodedMembers(deferring: parameters)] {
            #expect(members.object == ["b": nil, "c": 7])
            #expect(members.queryText == "b&c=7")
        }
        let entity = try #require(try EncodedMembers(deferring: Patch(name: .null, at: .value(.distantPast))))
        let coded = try entity.coded(by: .of(Coding(dates: .secondsSince2001)))
        #expect(coded.object.keys.sorted() == ["at", "name"] && coded["name"] == .null)
        // Nothing is left of it, but it still is an object.
        let empty = try #require(try EncodedMembers(deferring: Patch()))
        #expect(empty.isEmpty && empty.leavesOutNil)
    }

    @Test func elementsCannotBeLeftOut() throws {
        #expect(try json([Settable.value(1), .null]) == "[1,null]")
        #expect(try JSONValue(parsing: "[1,null]").decode([Settable<Int>].self) == [1, .null])
        for failing in [{ try self.json([Settable<Int>.leftOut]) }, { try self.json(["a": Settable<Int>.leftOut]) }] {
            let error = #expect(throws: EncodingError.self) { try failing() }
            #expect("\(try #require(error))".contains("use .null, or remove it"))
        }
        #expect(throws: EncodingError.self) { try JSONEncoder().encode([Settable<Int>.leftOut]) }
    }

    @Test func wrongTypesNameThePlace() throws {
        let error = #expect(throws: DecodingError.self) {
            try JSONValue(parsing: #"{"nested":{"note":5}}"#).decode(Patch.self)
        }
        #expect(DecodingPath(try #require(error)).path == "nested.note")
    }

    @Test func ignoredNullsAreLeftOut() throws {
        var coding = Coding()
        coding.ignoresNullMembers = true
        #expect(try JSONValue(parsing: #"{"name":null}"#).decode(Patch.self, coding: coding) == Patch())
        #expect(Settable("x", else: .null) == "x" && Settable(String?.none, else: .null) == .null)
        #expect(Settable<Int>.value(3).value == 3 && Settable<Int>.null.value == nil)
    }
}
