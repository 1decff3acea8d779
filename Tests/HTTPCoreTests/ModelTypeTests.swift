import Foundation
import HTTPCore
import Testing

/// Enums and unions that the server may add cases to.
@Suite struct ModelTypeTests {
    enum State: String, Sendable { case open, paid, unknown }
    enum Level: Int, Sendable { case low = 1, high }

    struct Order: Codable, Equatable, Sendable {
        var state: OpenEnum<State>
        var level: OpenEnum<Level>?
        var counts: [OpenEnum<State>: Int]?
    }

    private func order(_ text: String) throws -> Order { try JSONValue(parsing: text).decode(Order.self) }

    @Test func unknownRawValuesAreKept() throws {
        let text = #"{"counts":{"myOwn":1,"open":2},"level":7,"state":"on hold"}"#
        let order = try order(text)
        #expect(order.state == .unknown("on hold") && order.state.known == nil && order.level == .unknown(7))
        #expect(try JSONValue(encoding: order).description == text)
        #expect(try JSONValue(encoding: order, coding: Coding(keys: .snakeCase)).description == text)
        #expect(try JSONDecoder().decode(Order.self, from: JSONEncoder().encode(order)) == order)
        #expect(EncodedMembers(["s": try JSONValue(encoding: order.state)]).queryText == "s=on%20hold")
    }

    @Test func casesCompareWithTheirEnum() throws {
        let order = try order(#"{"state":"paid","level":2}"#)
        #expect(order.state == .paid && order.state != .open && order.level == .known(.high))
        // A raw value that is known equals its case, however it was made; the app's own `unknown` is a case.
        #expect(OpenEnum<State>.unknown("paid") == .known(.paid))
        #expect(Set([OpenEnum<State>.unknown("paid"), .known(.paid)]).count == 1)
        #expect(OpenEnum<State>(rawValue: "unknown") == .unknown && "\(order.state)" == "paid")
        let error = #expect(throws: DecodingError.self) { try self.order(#"{"state":1}"#) }
        #expect(DecodingPath(try #require(error)).path == "state")
    }

    struct Card: Codable, Equatable, Sendable { var lastDigits: String }
    struct Account: Codable, Equatable, Sendable { var iban: String }

    enum Payment: TaggedUnion, Encodable, Equatable {
        case card(Card), giftCard(Card), account(number: Account), cash(Empty), unknown(JSONValue)
        static let union = Coding.Union("paymentType", else: Payment.unknown)
            .case("card", Payment.card).case("gift", Payment.giftCard).case(3, Payment.account).case(
                "cash", Payment.cash)
    }

    enum Strict: TaggedUnion, Encodable {
        case card(Card), text(String), other(Card)
        static let union = Coding.Union<Strict>("type").case("card", Strict.card).case("text", Strict.text)
    }

    @Test(arguments: [
        (#"{"lastDigits":"11","paymentType":"card"}"#, Payment.card(Card(lastDigits: "11"))),
        (#"{"lastDigits":"22","paymentType":"gift"}"#, .giftCard(Card(lastDigits: "22"))),
        (#"{"iban":"DE1","paymentType":3}"#, .account(number: Account(iban: "DE1"))),
        (#"{"paymentType":"cash"}"#, .cash(Empty())),
        (#"{"paymentType":"crypto","wallet":[1]}"#, .unknown(["paymentType": "crypto", "wallet": [1]])),
        (#"{"a":1}"#, .unknown(["a": 1])), (#""x""#, .unknown("x")),
    ])
    func tagDecidesBothWays(text: String, payment: Payment) throws {
        let value = try JSONValue(parsing: text)
        #expect(try value.decode(Payment.self) == payment)
        #expect(try JSONValue(encoding: payment) == value)
        #expect(try JSONDecoder().decode([Payment].self, from: Data("[\(text)]".utf8)) == [payment])
        if value.object != nil { #expect(try JSONValue(parsing: JSONEncoder().encode(payment)) == value) }
    }

    @Test func tagFollowsTheFormOfNames() throws {
        let snake = Coding(keys: .snakeCase)
        let text = #"{"last_digits":"11","payment_type":"card"}"#
        #expect(try JSONValue(parsing: text).decode(Payment.self, coding: snake) == .card(Card(lastDigits: "11")))
        #expect(try JSONValue(encoding: Payment.card(Card(lastDigits: "11")), coding: snake).description == text)
    }

    @Test func errorsOfUnionsNameTheCases() throws {
        func reason(_ text: String) throws -> String {
            let error = #expect(throws: DecodingError.self) { try JSONValue(parsing: text).decode(Strict.self) }
            return DecodingPath(try #require(error)).reason
        }
        #expect(
            try reason(#"{"type":"crypto"}"#).hasPrefix(
                #""type" is "crypto", which is no case of Strict ("card", "text")"#))
        #expect(try reason("{}").hasPrefix(#"there is no "type""#))
        #expect(try reason("[]") == "expected an object, found an array")
        // A wrong payload is its own error, not another case.
        let wrong = #expect(throws: DecodingError.self) {
            try JSONValue(parsing: #"{"paymentType":"card"}"#).decode(Payment.self)
        }
        #expect(DecodingPath(try #require(wrong)).path == "lastDigits")
        for (value, advice) in [(Strict.text("x"), "use a struct"), (.other(Card(lastDigits: "1")), "add .case")] {
            let error = #expect(throws: EncodingError.self) { try JSONValue(encoding: value) }
            #expect("\(try #require(error))".contains(advice))
        }
    }
}
