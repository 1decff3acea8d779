import FoundationEssentials
import HTTPCore
import Testing

@Suite struct TimestampTests {
    private func roundTrip<Value: Codable>(_ type: Value.Type, _ json: JSONValue) throws -> JSONValue {
        try JSONValueEncoder().encode(json.decode(type))
    }

    @Test(arguments: [
        "2024-01-02T03:04:05.123456789+02:00", "2024-01-02T03:04:05Z", "2024-01-02", "0001-01-01T00:00:00Z", "", "soon",
    ]) func textIsKept(_ text: String) throws {
        #expect(try roundTrip(Timestamp.self, .string(text)) == .string(text))
        #expect(try roundTrip(Timestamp.Day.self, .string(text)) == .string(text))
        #expect(try roundTrip(Timestamp.Mail.self, .string(text)) == .string(text))
    }

    @Test func dateIsThatOfTheText() {
        #expect(Timestamp(rawValue: "1970-01-01T02:00:00.250+02:00").date == Date(timeIntervalSince1970: 0.25))
        #expect(Timestamp(rawValue: "soon").date == nil)
        #expect(Timestamp.Day(rawValue: "1970-01-02").date == Date(timeIntervalSince1970: 86_400))
        #expect(Timestamp.Day(rawValue: "1970-01-02T00:00:00Z").date == nil)
        #expect(
            Timestamp.Mail(rawValue: "Fri, 24 May 2019 17:44:46 +0000").date
                == Date(timeIntervalSince1970: 1_558_719_886))
        #expect(
            Timestamp.Mail(rawValue: "Fri, 24 May 2019 17:44:46 -0130").date
                == Date(timeIntervalSince1970: 1_558_725_286))
        for text in ["24 May 2019 17:44:46 +0000", "Fri, 24 May 2019 17:44 +0000", "24 May 2019 18:44 +0100"] {
            let seconds = text.contains(":46") ? 46.0 : 0
            #expect(Timestamp.Mail(rawValue: text).date == Date(timeIntervalSince1970: 1_558_719_840 + seconds))
        }
        #expect(Timestamp.Mail(rawValue: "Fri, 24 May 2019 17:44:46 EST").date == nil)
    }

    @Test func dateIsWrittenInItsForm() {
        let date = Date(timeIntervalSince1970: 1_558_719_886)
        #expect(Timestamp(date).rawValue == "2019-05-24T17:44:46Z")
        #expect(Timestamp(date + 0.25).rawValue == "2019-05-24T17:44:46.250Z")
        #expect(Timestamp.Day(date).rawValue == "2019-05-24")
        #expect(Timestamp.Day(year: 7, month: 3, day: 1).rawValue == "0007-03-01")
        #expect(Timestamp.Mail(date).rawValue == "Fri, 24 May 2019 17:44:46 +0000")
        #expect(Timestamp.Mail(date).date == date && Timestamp.Unix(date).date == date)
    }

    @Test(arguments: [
        (1e19, "9999-12-31"), (1e300, "9999-12-31"), (.infinity, "9999-12-31"), (253_402_300_799.9996, "9999-12-31"),
        (-1e19, "0000-01-01"), (-.infinity, "0000-01-01"), (.nan, "0000-01-01"),
    ]) func dateOfNoYearIsTheFirstOrTheLast(_ seconds: Double, _ day: String) {
        // A server may give any number.
        let date = Timestamp.Unix(rawValue: seconds).date
        #expect(Timestamp(date).rawValue.hasPrefix("\(day)T") && Timestamp.Day(date).rawValue == day)
        #expect(Timestamp.Mail(date).rawValue.contains(day.hasPrefix("9") ? "31 Dec 9999 23:59:59" : "01 Jan 0000"))
    }

    @Test func secondsAreNumbers() throws {
        #expect(try roundTrip(Timestamp.Unix.self, 1_558_719_886) == 1_558_719_886)
        #expect(try roundTrip(Timestamp.Unix.self, 1.5) == 1.5)
    }
}
