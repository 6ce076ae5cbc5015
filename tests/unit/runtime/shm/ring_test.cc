#include "runtime/shm/ring.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace downpour {
namespace {

constexpr size_t kRing = 256;

struct Ring {
  RingWords words{};
  std::vector<std::byte> bytes = std::vector<std::byte>(kRing);
  RingWriter writer{&words, bytes.data(), kRing};
  RingReader reader{&words, bytes.data(), kRing};

  bool Write(const std::string& text) {
    if (!writer.Begin(text.size())) return false;
    writer.Put(text.data(), text.size());
    writer.Publish();
    return true;
  }
};

TEST(RingTest, RecordsComeWholeAndInOrderAcrossTheEnd) {
  Ring ring;
  std::string record;
  for (size_t i = 0; i < 200; ++i) {
    const std::string text(i % 97, static_cast<char>('a' + i % 26));
    ASSERT_TRUE(ring.Write(text)) << i;
    ASSERT_EQ(ring.reader.Next(&record), RingReader::Found::kRecord);
    EXPECT_EQ(record, text);
  }
  EXPECT_EQ(ring.reader.Next(&record), RingReader::Found::kNothing);
}

TEST(RingTest, WhatDoesNotFitIsNotBegunAndFitsOnceTheReaderHasMoved) {
  Ring ring;
  ASSERT_TRUE(ring.Write(std::string(200, 'x')));
  EXPECT_FALSE(ring.Write(std::string(60, 'y')));
  std::string record;
  ASSERT_EQ(ring.reader.Next(&record), RingReader::Found::kRecord);
  EXPECT_TRUE(ring.Write(std::string(60, 'y')));
  EXPECT_FALSE(ring.Write(std::string(kRing, 'z'))) << "it never will";
}

TEST(RingTest, OnlyAReaderThatWaitsIsWoken) {
  Ring ring;
  ASSERT_TRUE(ring.writer.Begin(0));
  EXPECT_FALSE(ring.writer.Publish()) << "it is awake";
  std::string record;
  EXPECT_FALSE(ring.reader.AskToBeWoken()) << "there is something";
  ASSERT_EQ(ring.reader.Next(&record), RingReader::Found::kRecord);
  EXPECT_TRUE(ring.reader.AskToBeWoken());
  ASSERT_TRUE(ring.writer.Begin(0));
  EXPECT_TRUE(ring.writer.Publish());
  ASSERT_TRUE(ring.writer.Begin(0));
  EXPECT_FALSE(ring.writer.Publish()) << "once is enough";
}

// A peer that writes what it likes gets an end or a record, and the reader nothing outside the ring: asan looks.
TEST(RingTest, NoiseEverywhereBreaksTheRingAndNothingElse) {
  std::mt19937_64 random(1);
  size_t broken = 0;
  for (int round = 0; round < 20'000; ++round) {
    Ring ring;
    for (std::byte& byte : ring.bytes) byte = static_cast<std::byte>(random());
    const uint64_t near[] = {random(), random() % (2 * kRing), kRing, 8, 7, UINT64_MAX};
    ring.words.written = near[random() % std::size(near)];
    if (round % 2 == 0) {
      const uint64_t length = random() % (2 * kRing);
      std::memcpy(ring.bytes.data(), &length, sizeof(length));
    }
    std::string record;
    RingReader::Found found{};
    for (int i = 0; i < 40 && (found = ring.reader.Next(&record)) == RingReader::Found::kRecord; ++i) {
      ASSERT_LE(record.size(), kRing);
    }
    broken += found == RingReader::Found::kBroken;
    ring.words.read = near[random() % std::size(near)];
    ring.Write(std::string(random() % kRing, 'x'));  // a reader that lies
  }
  EXPECT_GT(broken, 10'000u);
}

TEST(RingTest, OnceBrokenItStaysSo) {
  Ring ring;
  ring.words.written = kRing + 1;
  std::string record;
  EXPECT_EQ(ring.reader.Next(&record), RingReader::Found::kBroken);
  ring.words.written = 0;
  EXPECT_EQ(ring.reader.Next(&record), RingReader::Found::kBroken);
}

// No wake-up is lost: the reader sleeps for ever where it asked in vain.
TEST(RingTest, TwoThreadsLoseNoRecordAndNoWakeUp) {
  Ring ring;
  constexpr uint64_t kRecords = 200'000;
  std::atomic<uint64_t> wakes{0};
  std::thread writer([&] {
    for (uint64_t i = 0; i < kRecords; ++i) {
      while (!ring.writer.Begin(sizeof(i))) std::this_thread::yield();
      ring.writer.Put(&i, sizeof(i));
      if (ring.writer.Publish()) {
        wakes.fetch_add(1);
        wakes.notify_one();
      }
    }
  });
  std::string record;
  for (uint64_t next = 0; next < kRecords;) {
    const uint64_t before = wakes.load();
    if (ring.reader.Next(&record) == RingReader::Found::kRecord) {
      uint64_t got = 0;
      ASSERT_EQ(record.size(), sizeof(got));
      std::memcpy(&got, record.data(), sizeof(got));
      ASSERT_EQ(got, next++);
    } else if (ring.reader.AskToBeWoken()) {
      wakes.wait(before);
    }
  }
  writer.join();
}

}  // namespace
}  // namespace downpour
