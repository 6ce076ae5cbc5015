#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "data/open_source.h"
#include "data/places/answers.h"
#include "data/places/gcs_token.h"
#include "data/places/s3.h"
#include "data/places/sigv4.h"
#include "data/places/url.h"
#include "data/places/web.h"

namespace downpour {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

TEST(PlaceUrlTest, TextIsPackedAndUnpacked) {
  EXPECT_EQ(PercentEncode("a b/c~d+\xc3\xa9"), "a%20b%2Fc~d%2B%C3%A9");
  EXPECT_EQ(PercentEncode("a b/c", /*keeps_slashes=*/true), "a%20b/c");
  EXPECT_EQ(PercentDecode("a%20b%2fc+%"), "a b/c+%");
  EXPECT_EQ(PercentDecode("%4"), "%4");
}

TEST(PlaceUrlTest, WhatMayBeSecretIsNotShown) {
  EXPECT_EQ(ShownUrl("https://ann:pass@host/a.csv?X-Amz-Signature=s3cret#x"), "https://host/a.csv?...");
  EXPECT_EQ(ShownUrl("http://host:80/a@b.csv"), "http://host:80/a@b.csv");
}

TEST(PlaceAnswersTest, ARangeLiesWithinItsTotal) {
  const auto range = ContentRangeIn("bytes 5-9/1000");
  ASSERT_TRUE(range);
  EXPECT_EQ(range->first, 5u);
  EXPECT_EQ(range->last, 9u);
  EXPECT_EQ(range->total, 1000u);
  for (const char* wrong : {"", "bytes 5-9/*", "bytes 9-5/10", "bytes 5-10/10", "bytes -1-5/10", "bytes 5/10-9",
                            "bytes 5-9/99999999999999999999", "items 5-9/10", "bytes 0x5-9/10", "bytes */10"}) {
    EXPECT_FALSE(ContentRangeIn(wrong)) << wrong;
  }
}

TEST(PlaceAnswersTest, PagesOfListings) {
  const auto s3 = S3PageIn(
      "<ListBucketResult xmlns='x'><EncodingType>url</EncodingType><IsTruncated>true</IsTruncated>"
      "<NextContinuationToken>t/1=</NextContinuationToken><Contents><Key>day%2Fa+b%2Bc</Key></Contents>"
      "<Contents><Key/></Contents></ListBucketResult>");
  ASSERT_TRUE(s3.ok()) << s3.status();
  EXPECT_THAT(s3->keys, ElementsAre("day/a b+c"));
  EXPECT_EQ(s3->next, "t/1=");
  EXPECT_EQ(S3PageIn("<ListBucketResult><Contents><Key>a+b</Key></Contents></ListBucketResult>")->keys.front(), "a+b");
  EXPECT_FALSE(S3PageIn("<html>").ok());
  EXPECT_FALSE(S3PageIn("<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>").ok())
      << "what is missing would be missing without a word";
  const auto gcs = GcsPageIn(R"({"items": [{"name": "day/a b"}, {"name": 7}, 3], "nextPageToken": "n"})");
  ASSERT_TRUE(gcs.ok()) << gcs.status();
  EXPECT_THAT(gcs->keys, ElementsAre("day/a b"));
  EXPECT_EQ(gcs->next, "n");
  EXPECT_TRUE(GcsPageIn("{}")->keys.empty());
  EXPECT_FALSE(GcsPageIn("[]").ok());
}

TEST(PlaceAnswersTest, WordsOfFailures) {
  EXPECT_EQ(S3WordsIn("<Error><Code>SignatureDoesNotMatch</Code><Message>It does\nnot.</Message>"
                      "<AWSAccessKeyId>AKID</AWSAccessKeyId><StringToSign>s</StringToSign></Error>"),
            "SignatureDoesNotMatch: It does not.");
  EXPECT_EQ(S3WordsIn("<html>"), "");
  EXPECT_EQ(GcsWordsIn(R"({"error": {"message": "denied"}})"), "denied");
  EXPECT_EQ(GcsWordsIn(R"({"error": "invalid_grant", "error_description": "Bad"})"), "invalid_grant: Bad");
  EXPECT_EQ(GcsWordsIn("Not Found"), "");
}

std::string SignatureOf(const HttpHeaders& headers) {
  const std::string& last = headers.back().second;
  return last.substr(last.rfind('=') + 1);
}

// The examples of "Authenticating Requests: Using the Authorization Header", Amazon S3 API Reference.
TEST(SigV4Test, TheExamplesOfTheReference) {
  const AwsKeys keys{"AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"};
  constexpr std::time_t kMay24 = 1369353600;
  const std::string host = "https://examplebucket.s3.amazonaws.com";
  EXPECT_EQ(SignatureOf(SignedByAws(host + "/test.txt", {{"range", "bytes=0-9"}}, keys, "us-east-1", kMay24)),
            "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
  EXPECT_EQ(SignatureOf(SignedByAws(host + "/?max-keys=2&prefix=J", {}, keys, "us-east-1", kMay24)),
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
}

TEST(SigV4Test, ATokenIsSentAndSigned) {
  const HttpHeaders headers = SignedByAws("http://h:1/b/k", {}, {"id", "secret", "token"}, "r", 0);
  EXPECT_THAT(headers, testing::Contains(Pair("x-amz-security-token", "token")));
  EXPECT_THAT(headers.back().second,
              HasSubstr("SignedHeaders=host;x-amz-content-sha256;x-amz-date;x-amz-security-token"));
}

TEST(S3PlaceTest, WhereABucketAnswers) {
  EXPECT_EQ(BucketUrl("", "eu-west-1", "b-1"), "https://b-1.s3.eu-west-1.amazonaws.com");
  EXPECT_EQ(BucketUrl("", "cn-north-1", "b.c"), "https://s3.cn-north-1.amazonaws.com.cn/b.c")
      << "a certificate holds for one label";
  EXPECT_EQ(BucketUrl("http://localhost:5000/", "r", "b"), "http://localhost:5000/b");
  EXPECT_EQ(BucketUrl("", "r.evil.com/", "b"), "https://b.s3.r.evil.com%2F.amazonaws.com") << "which is no host";
}

TEST(S3PlaceTest, KeysOfAProfile) {
  const std::string file =
      "# mine\n[default]\naws_access_key_id = A\naws_secret_access_key = s/=\n\n[ job ]\nAWS_ACCESS_KEY_ID=B\n"
      "aws_secret_access_key=t\r\naws_session_token = u\n[half]\naws_access_key_id = C\n";
  const auto keys = KeysOfProfile(file, "default");
  ASSERT_TRUE(keys);
  EXPECT_EQ(keys->id + " " + keys->secret + " " + keys->token, "A s/= ");
  const auto others = KeysOfProfile(file, "job");
  ASSERT_TRUE(others);
  EXPECT_EQ(others->id + " " + others->secret + " " + others->token, "B t u");
  EXPECT_FALSE(KeysOfProfile(file, "half"));
  EXPECT_FALSE(KeysOfProfile(file, "absent"));
}

TEST(WebPlaceTest, WhatAsksForOneVersion) {
  EXPECT_THAT(OnlyOf("\"tag\""), ElementsAre(Pair("if-match", "\"tag\"")));
  EXPECT_THAT(OnlyOf("Wed, 21 Oct 2015 07:28:00 GMT"), ElementsAre(Pair("if-unmodified-since", testing::_)));
  EXPECT_TRUE(OnlyOf("W/\"weak\"").empty()) << "If-Match of a weak one matches nothing";
  EXPECT_TRUE(OnlyOf("").empty());
}

TEST(GoogleTokenTest, WhatAFileOfCredentialsAsksFor) {
  const auto order =
      TokenOrderOf(R"({"type": "authorized_user", "client_id": "i", "client_secret": "s&", "refresh_token": "r"})", 0);
  ASSERT_TRUE(order.ok()) << order.status();
  EXPECT_EQ(order->url, "https://oauth2.googleapis.com/token");
  EXPECT_EQ(order->form, "grant_type=refresh_token&client_id=i&client_secret=s%26&refresh_token=r");
  EXPECT_FALSE(TokenOrderOf("[", 0).ok());
  EXPECT_FALSE(TokenOrderOf(R"({"type": "external_account"})", 0).ok());
  const absl::Status wrong = TokenOrderOf(R"({"type": "service_account", "private_key": "s3cret"})", 0).status();
  EXPECT_EQ(wrong.message(), "has no private_key that is one of RSA");
}

TEST(OpenSourceTest, WhatCanBeNoPlaceIsRefusedByName) {
  EXPECT_THAT(OpenSource("ftp://h/a").status().message(), HasSubstr("ftp://h/a has the scheme ftp://"));
  const absl::Status status = OpenSource("http://ann:s3cret@h/a?k=s3cret").status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_EQ(std::string(status.message()).find("s3cret"), std::string::npos);
  EXPECT_TRUE(absl::IsInvalidArgument(MatchingObjects("s3://b*/a").status()));
}

}  // namespace
}  // namespace downpour
