import Foundation
import HTTPCore
import Testing

@Suite struct DecimalCodingTests {
    struct Price: Codable, Equatable { var amount: Decimal }

    private let text = Coding(decimals: .text)

    private func price(_ json: String, _ coding: Coding = Coding()) throws -> Decimal {
        try JSONValue(parsing: json).decode(Price.self, coding: coding).amount
    }

    private func document(_ json: String, _ coding: Coding) throws -> Decimal {
        try JSONDocument(parsing: Data(json.utf8)).decode(Price.self, by: .of(coding)).amount
    }

    @Test func randomDecimalsKeepAllDigits() throws {
        var random = SplitMix64(state: 9)
        for _ in 0..<1_000 {
            let digits = (0..<Int.random(in: 1...38, using: &random)).map { _ in Int.random(in: 0...9, using: &random) }
            var number = digits.map(String.init).joined()
            let places = Int.random(in: 0...number.count - 1, using: &random)
            number.insert(contentsOf: places == 0 ? "" : ".", at: number.index(number.endIndex, offsetBy: -places))
            let decimal = try #require(Decimal(string: (Bool.random(using: &random) ? "-" : "") + number))
            for (coding, quote) in [(Coding(), ""), (text, "\"")] {
                let json = try JSONValue(encoding: Price(amount: decimal), coding: coding).description
                #expect(json == "{\"amount\":\(quote)\(decimal.description)\(quote)}")
                #expect(try price(json, coding) == decimal && document(json, coding) == decimal)
                let entity = try EncodedMembers(deferring: Price(amount: decimal))?.coded(by: .of(coding))
                #expect(try entity.map { String(decoding: try $0.jsonData(), as: UTF8.self) } == json)
                #expect(entity?.queryText == "amount=\(decimal.description)")
            }
        }
    }

    @Test func textReadsNumbersToo() throws {
        #expect(try price(#"{"amount":12.50}"#, text) == 12.5)
        #expect(try price(#"{"amount":"-0.10"}"#, text) == Decimal(string: "-0.1"))
        #expect(try price(#"{"amount":"1e-20"}"#, text) == Decimal(string: "0.00000000000000000001"))
        #expect(
            try JSONValue(encoding: ["a": Decimal(1)] as JSONValue.Object, coding: text).description == #"{"a":"1"}"#)
    }

    /// A `JSONValue` says itself how it is written.
    @Test func valuesOfJSONStayNumbers() throws {
        #expect(try JSONValue(encoding: ["a": JSONValue.decimal(1)], coding: text).description == #"{"a":1}"#)
        let members = try EncodedMembers(deferring: ["a": JSONValue.decimal(1), "b": Decimal(2)] as Parameters)
        #expect(try members.coded(by: .of(text)).object == ["a": 1, "b": "2"])
    }

    @Test(arguments: [
        (#"{"amount":"12"}"#, false, "set the coding's decimals to .text"),
        (#"{"amount":"12 EUR"}"#, true, #""12 EUR" is not a decimal"#), (#"{"amount":""}"#, true, "is not a decimal"),
        (#"{"amount":"1,5"}"#, true, "is not a decimal"), (#"{"amount":true}"#, true, "found a Boolean"),
        (#"{"amount":0.1234567890123456789012345678901234567891}"#, false, "does not hold all digits"),
        (#"{"amount":"0.1234567890123456789012345678901234567891"}"#, true, "does not hold all digits"),
        (#"{"amount":1e200}"#, false, "does not hold all digits"), (#"{"amount":"1e-200"}"#, true, "all digits"),
    ])
    func lossIsAnErrorWithItsReason(json: String, isText: Bool, reason: String) throws {
        let error = #expect(throws: DecodingError.self) { try document(json, isText ? text : Coding()) }
        let place = DecodingPath(try #require(error))
        #expect(place.path == "amount" && place.reason.contains(reason), "\(place.reason)")
    }
}
