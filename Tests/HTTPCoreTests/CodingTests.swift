import FoundationEssentials
import Testing

@testable import HTTPCore

@Suite struct CodingTests {
    private struct Account: Codable, Hashable {
        var userName: String
        var imageURL: URL?
        var createdAt: Date
        var balance: Double
        var token: Data
        var labels: [String: Int]
        var history: [Entry]

        struct Entry: Codable, Hashable {
            var changedAt: Date
        }
    }

    private let account = Account(
        userName: "Ada", imageURL: URL(string: "https://example.org/a.png"),
        createdAt: Date(timeIntervalSince1970: 1_740_821_400), balance: 1.5, token: Data([0xFB, 0xFF]),
        labels: ["firstOne": 1], history: [.init(changedAt: Date(timeIntervalSince1970: 0))])

    private func encoded(_ value: some Encodable, _ coding: Coding) throws -> JSONValue {
        try JSONValueEncoder(rules: CodingRules.of(coding)).encode(value)
    }

    private func reason(_ body: () throws -> Void) -> String {
        do {
            try body()
            return ""
        } catch let EncodingError.invalidValue(_, context) {
            return context.debugDescription
        } catch let DecodingError.dataCorrupted(context) {
            return context.debugDescription
        } catch {
            return "\(error)"
        }
    }

    // MARK: Both ways

    @Test(
        arguments: [
            Coding.Dates.iso8601, .iso8601WithFractionalSeconds, .unixSeconds, .unixMilliseconds, .secondsSince2001,
            .pattern("yyyy-MM-dd HH:mm:ss"), .pattern("dd.MM.yyyy'T'HH'h'mm'm'ss"), .pattern("d/M/yyyy H:m:s Z"),
            .pattern("d MMM yyyy HH:mm:ss.SSS XXX"), .pattern("yyyyMMddHHmmss"),
        ], Coding.Keys.allCases)
    func valueIsReadAsItWasWritten(dates: Coding.Dates, keys: Coding.Keys) throws {
        let coding = Coding(dates: dates, keys: keys)
        #expect(try encoded(account, coding).decode(Account.self, coding: coding) == account)
    }

    @Test func datesOfAllYearsAreReadAsWritten() throws {
        var random = SystemRandomNumberGenerator()
        let span = -62_135_596_800...253_402_300_799
        for seconds in [span.lowerBound, span.upperBound, 0, -1, 951_782_400, 4_107_542_400]
            + (0..<2_000).map({ _ in Int.random(in: span, using: &random) })
        {
            let date = Date(timeIntervalSince1970: Double(seconds))
            for dates in [Coding.Dates.iso8601, .unixSeconds, .unixMilliseconds, .pattern("yyyy-MM-dd HH:mm:ss")] {
                let coding = Coding(dates: dates)
                #expect(try encoded(date, coding).decode(Date.self, coding: coding) == date, "\(seconds) \(dates)")
            }
        }
    }

    @Test func fractionsSurviveToTheMillisecond() throws {
        for milliseconds in [0, 1, 250, 999] {
            let date = Date(timeIntervalSince1970: 1_740_821_400 + Double(milliseconds) / 1000)
            for dates in [Coding.Dates.iso8601WithFractionalSeconds, .pattern("yyyy-MM-dd HH:mm:ss.SSS")] {
                let coding = Coding(dates: dates)
                let back = try encoded(date, coding).decode(Date.self, coding: coding)
                #expect(abs(back.timeIntervalSince(date)) < 0.000_5)
            }
        }
    }

    // MARK: ISO 8601

    @Test(
        arguments: [
            ("2025-03-01T09:30:00Z", 1_740_821_400.0), ("2025-03-01T09:30:00.250Z", 1_740_821_400.25),
            ("2025-03-01T09:30:00,5Z", 1_740_821_400.5), ("2025-03-01T09:30Z", 1_740_821_400),
            ("2025-03-01t11:30:00+02:00", 1_740_821_400), ("2025-03-01 04:00:00-0530", 1_740_821_400),
            ("2025-03-01T10:30:00+01", 1_740_821_400), ("2025-03-01", 1_740_787_200),
            ("2016-12-31T23:59:60Z", 1_483_228_800), ("0001-01-01T00:00:00Z", -62_135_596_800),
            ("9999-12-31T23:59:59.999999999Z", 253_402_300_799.999_999_999), ("2024-02-29T00:00:00Z", 1_709_164_800),
        ])
    func iso8601IsRead(text: String, seconds: Double) throws {
        let date = try JSONValue.string(text).decode(Date.self)
        #expect(abs(date.timeIntervalSince1970 - seconds) < 0.000_1)
    }

    @Test(
        arguments: [
            "", "soon", "2025-03-01T09:30:00", "2025-02-29", "2025-13-01", "2025-00-10", "2025-03-01T24:00:00Z",
            "2025-03-01T09:60:00Z", "2025-03-01T09:30:61Z", "2025-03-01T09:30:00.Z", "2025-03-01T09:30:00+2",
            "2025-03-01T09:30:00Zulu", "25-03-01", "2025-3-1", "2025-03-01T09:30:00+24:00", "２０２５-03-01",
        ])
    func otherTextIsNoDate(text: String) {
        #expect(
            reason { _ = try JSONValue.string(text).decode(Date.self) }.contains("is not a date in the form ISO 8601"))
    }

    @Test func numberIsNoTextDate() {
        #expect(
            reason { _ = try JSONValue.int(5).decode(Date.self) }
                == "expected a date as text (ISO 8601), found a number")
        let coding = Coding(dates: .unixSeconds)
        #expect(
            reason { _ = try JSONValue.string("5").decode(Date.self, coding: coding) }
                == "expected a date as a number (seconds since 1970), found a string")
    }

    // MARK: Patterns

    @Test(
        arguments: [
            ("yyyy-MM-dd", "2025-03-01"), ("yy/M/d", "25/3/1"), ("dd MMM yyyy", "01 Mar 2025"),
            ("yyyy-MM-dd'T'HH:mm:ssX", "2025-03-01T00:00:00Z"), ("yyyy-MM-dd Z", "2025-03-01 +0000"),
            ("'on' d''M''yyyy", "on 1'3'2025"),
        ])
    func patternIsWrittenAndRead(pattern: String, text: String) throws {
        let coding = Coding(dates: .pattern(pattern))
        let date = Date(timeIntervalSince1970: 1_740_787_200)
        #expect(try encoded(date, coding) == .string(text))
        #expect(try JSONValue.string(text).decode(Date.self, coding: coding) == date)
    }

    @Test func twoDigitsAreAYearOfTheLastEightyOrTheNextTwenty() throws {
        let coding = Coding(dates: .pattern("dd.MM.yy"))
        let thisYear = CivilTime(Date()).year
        for digits in 0..<100 {
            let text = JSONValue.string("01.03.\(CivilTime.padded(digits, 2))")
            let date = try text.decode(Date.self, coding: coding)
            #expect(thisYear - 80..<thisYear + 20 ~= CivilTime(date).year && CivilTime(date).year % 100 == digits)
            #expect(try encoded(date, coding) == text)
        }
        for year in [thisYear - 81, thisYear + 20] {
            let date = try #require(CivilTime(year: year).date)
            #expect(reason { _ = try encoded(date, coding) }.contains("the year \(year) would be read as"))
        }
    }

    @Test(
        arguments: [
            ("yyyy-MM-dd EEE", "\"E\""), ("HH:mm", "no \"y\""), ("yyyy-MM-dd'T", "not closed"),
            ("yyyyy-MM-dd", "5 times"), ("yyy-MM-dd", "\"y\" 3 times; write yy or yyyy"),
            ("yyyy-MM-dd'o''", "not closed"),
            ("y-MM-dd", "\"y\" once; write yy or yyyy"), ("yyyy-MMMM-dd", "\"M\" 4 times; write at most 3"),
        ])
    func invalidPatternIsExplained(pattern: String, word: String) {
        let coding = Coding(dates: .pattern(pattern))
        #expect(reason { _ = try encoded(Date(), coding) }.contains(word))
        #expect(reason { _ = try JSONValue.string("2025-03-01").decode(Date.self, coding: coding) }.contains(word))
    }

    @Test(arguments: [
        ("yyyy-MM-dd'T'", "1970-01-01T"), ("yyyy-MM-dd 'o''clock'", "1970-01-01 o'clock"),
        ("yyyy-MM-dd''", "1970-01-01'"), ("yyyy-MM-dd'''a'", "1970-01-01'a"), ("yyyy-MM-dd'a'''", "1970-01-01a'"),
    ])
    func quotesInAPatternAreDoubled(pattern: String, text: String) throws {
        let coding = Coding(dates: .pattern(pattern))
        let date = Date(timeIntervalSince1970: 0)
        #expect(try encoded(date, coding) == .string(text))
        #expect(try JSONValue.string(text).decode(Date.self, coding: coding) == date)
    }

    // MARK: Names

    @Test(
        arguments: [
            ("userName", "user_name"), ("imageURL", "image_url"), ("myURLPath", "my_url_path"), ("id", "id"),
            ("line2", "line2"), ("already_snake", "already_snake"), ("A", "a"), ("", ""), ("_private", "_private"),
            ("größeÄnderung", "größeÄnderung"),
        ])
    func nameIsConvertedToSnakeCase(name: String, snake: String) { #expect(name.snakeCase == snake) }

    @Test func snakeCaseKeepsKeysOfDictionaries() throws {
        let json = try encoded(account, Coding(keys: .snakeCase))
        #expect(json["user_name"] == "Ada" && json["labels"] == ["firstOne": 1])
        #expect(json["history"]?[0]["changed_at"] == "1970-01-01T00:00:00Z")
    }

    @Test func keysOfDictionariesAreReadAsTheyAre() throws {
        struct Page: Decodable, Equatable {
            struct Item: Decodable, Equatable { var itemCount: Int }

            var ownLabels: [String: Item]
        }
        let coding = Coding(keys: .snakeCase)
        let json = try JSONValue(parsing: #"{"A": 1, "a": 2, "userName": 3, "user_name": 4}"#)
        let dictionary = ["A": 1, "a": 2, "userName": 3, "user_name": 4]
        #expect(try json.decode([String: Int].self, coding: coding) == dictionary)
        #expect(try json.decode([String: Int]?.self, coding: coding) == dictionary)
        let page = try JSONValue(
            parsing: #"{"own_labels": {"A": {"item_count": 1}, "a": {"item_count": 2}}}"#)
        #expect(
            try page.decode(Page.self, coding: coding)
                == Page(ownLabels: ["A": .init(itemCount: 1), "a": .init(itemCount: 2)]))
    }

    @Test(
        arguments: [
            #"{"address_line_1": "x", "oauth_2_token": "t"}"#, #"{"address_line1": "x", "oauth2_token": "t"}"#,
            #"{"addressLine1": "x", "oauth2Token": "t"}"#,
        ])
    func numberIsReadAsAWordAndAsItsEnd(json: String) throws {
        struct Account: Decodable {
            var addressLine1: String?
            var oauth2Token: String
        }
        let account = try JSONValue(parsing: json).decode(Account.self, coding: Coding(keys: .snakeCase))
        #expect(account.addressLine1 == "x" && account.oauth2Token == "t")
    }

    @Test func declaredNameIsReadToo() throws {
        struct User: Decodable { var userName: String }
        let json = try JSONValue(parsing: #"{"userName": "Ada"}"#)
        #expect(try json.decode(User.self, coding: Coding(keys: .snakeCase)).userName == "Ada")
    }

    // MARK: Bytes, numbers and nulls

    @Test func base64URLHasNoPadding() throws {
        var coding = Coding()
        coding.data = .base64URL
        #expect(try encoded(Data([0xFB, 0xFF]), coding) == "-_8")
        #expect(try JSONValue.string("-_8").decode(Data.self, coding: coding) == Data([0xFB, 0xFF]))
    }

    @Test func infiniteNumbersMayBeTexts() throws {
        var coding = Coding()
        #expect(reason { _ = try encoded([Double.infinity], coding) }.contains("not a number in JSON"))
        coding.nonConformingNumbers = .texts(infinity: "inf", negativeInfinity: "-inf", nan: "nan")
        #expect(try encoded([Double.infinity, -.infinity, .nan], coding) == ["inf", "-inf", "nan"])
        let numbers = try JSONValue(parsing: #"["inf", "-inf", "nan", 2]"#).decode([Double].self, coding: coding)
        #expect(numbers[0] == .infinity && numbers[1] == -.infinity && numbers[2].isNaN && numbers[3] == 2)
    }

    @Test func ignoredNullsAreMissing() throws {
        var coding = Coding()
        coding.ignoresNullMembers = true
        let json = try JSONValue(parsing: #"{"a": null, "b": [null, {"c": null}]}"#)
        #expect(try json.decode(JSONValue.self, coding: coding) == ["b": [.null, [:]]])
        #expect(try json.decode([String: JSONValue].self, coding: coding).keys.sorted() == ["b"])
    }

    @Test func ownCodersReplaceTheSettings() throws {
        var coding = Coding()
        coding.decoder = JSONDecoder()
        #expect(
            try JSONValue.double(0.5).decode(Date.self, coding: coding) == Date(timeIntervalSinceReferenceDate: 0.5))
        #expect(coding != Coding() && coding == coding)
    }

    // MARK: A coding that is known later

    @Test(
        arguments: [
            Coding(), Coding(dates: .unixSeconds), Coding(dates: .pattern("yyyy-MM-dd HH:mm:ss")),
            Coding(keys: .snakeCase),
            Coding(dates: .unixMilliseconds, keys: .snakeCase),
        ])
    func deferredCodingIsTheSame(coding: Coding) throws {
        let rules = CodingRules.of(coding)
        let deferred = try #require(try EncodedMembers(deferring: account)).coded(by: rules).named(by: rules)
        #expect(try JSONValue.object(deferred.object) == encoded(account, coding))
        let direct = try #require(try EncodedMembers(encoding: account, by: JSONValueEncoder(rules: rules)))
        #expect(try deferred.jsonData() == direct.jsonData())
    }

    @Test func deferredSetsAndJSONValuesAreKept() throws {
        struct Query: Encodable {
            var days: Set<Date>
            var extraData: JSONValue = ["innerName": ["deepName": 1]]
        }
        let query = Query(days: [Date(timeIntervalSince1970: 200), Date(timeIntervalSince1970: 0)])
        let coding = Coding(dates: .unixSeconds, keys: .snakeCase)
        let rules = CodingRules.of(coding)
        let members = try #require(try EncodedMembers(deferring: query)).coded(by: rules).named(by: rules)
        #expect(members["days"] == [0, 200] && members["extra_data"] == ["innerName": ["deepName": 1]])
    }

    @Test func deferredSetsKeepTheKeysOfTheirElements() throws {
        struct Filter: Encodable, Hashable {
            var id: Int
            var labels: [String: String]?
        }
        struct Query: Encodable { var filters: Set<Filter> }
        // Only some elements have keys to keep, and sorting moves most of them.
        let filters = (0..<20).map { Filter(id: $0, labels: $0 % 3 == 0 ? ["firstOne": "x", "last": "y"] : nil) }
        let rules = CodingRules.of(Coding(keys: .snakeCase))
        let deferred = try EncodedMembers(deferring: Query(filters: Set(filters)))
        let members = try #require(deferred).coded(by: rules).named(by: rules)
        let direct = try #require(
            try EncodedMembers(encoding: Query(filters: Set(filters)), by: JSONValueEncoder(rules: rules)))
        #expect(members.object == direct.object)
    }

    @Test func casesOfAnEnumAreKeys() throws {
        enum Change: Codable, Equatable {
            case userCreated(userName: String)
            case removed
        }
        let coding = Coding(keys: .snakeCase)
        for change in [Change.userCreated(userName: "Ada"), .removed] {
            let json = try encoded(change, coding)
            #expect(try json.decode(Change.self, coding: coding) == change, "\(json)")
        }
    }

    @Test func namesThatBecomeOneAreOneMember() throws {
        struct Names: Encodable {
            var first = 1
            var second = 2

            enum CodingKeys: String, CodingKey {
                case first = "userName"
                case second = "user_name"
            }
        }
        let rules = CodingRules.of(Coding(keys: .snakeCase))
        let members = try #require(try EncodedMembers(deferring: Names())).coded(by: rules).named(by: rules)
        #expect(members.object == ["user_name": 2])
        #expect(try members.jsonData() == Data(#"{"user_name":2}"#.utf8))
    }

    @Test func namesOfAJSONValueStay() throws {
        let value: JSONValue = ["userName": ["firstName": "Ada"], "id": 1]
        let rules = CodingRules.of(Coding(keys: .snakeCase))
        let deferred = try #require(try EncodedMembers(deferring: value)).coded(by: rules).named(by: rules)
        let direct = try #require(try EncodedMembers(encoding: value, by: JSONValueEncoder(rules: rules)))
        #expect(JSONValue.object(deferred.object) == value && JSONValue.object(direct.object) == value)
        #expect(try EncodedMembers(deferring: JSONValue.array([1])) == nil)
    }

    @Test func lastOfEqualNamesCountsWhenDeferred() throws {
        struct Twice: Encodable {
            enum CodingKeys: CodingKey { case item }

            func encode(to encoder: any Encoder) throws {
                var container = encoder.container(keyedBy: CodingKeys.self)
                try container.encode(Data([0xFF]), forKey: .item)
                try container.encode("text", forKey: .item)
            }
        }
        let members = try #require(try EncodedMembers(deferring: Twice()))
        #expect(try members.coded(by: nil)["item"] == "text")
    }

    @Test func deferredNumberIsRefusedWhenCoded() throws {
        let members = try EncodedMembers(deferring: ["rate": Double.nan])
        #expect(throws: EncodingError.self) { try members.coded(by: nil) }
    }
}
