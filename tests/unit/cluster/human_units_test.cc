#include "cluster/human_units.h"

#include <gtest/gtest.h>

namespace downpour {
namespace {

TEST(HumanUnitsTest, Counts) {
  EXPECT_EQ(HumanCount(0), "0");
  EXPECT_EQ(HumanCount(999), "999");
  EXPECT_EQ(HumanCount(1000), "1,000");
  EXPECT_EQ(HumanCount(1234567.4), "1,234,567");
  EXPECT_EQ(HumanCount(-4321), "-4,321");
}

TEST(HumanUnitsTest, Bytes) {
  EXPECT_EQ(HumanBytes(0), "0 B");
  EXPECT_EQ(HumanBytes(1023), "1023 B");
  EXPECT_EQ(HumanBytes(1024), "1.0 KiB");
  EXPECT_EQ(HumanBytes(88080384), "84.0 MiB");
}

TEST(HumanUnitsTest, Seconds) {
  EXPECT_EQ(HumanSeconds(0.24), "0.2 s");
  EXPECT_EQ(HumanSeconds(9.97), "10 s");
  EXPECT_EQ(HumanSeconds(59.6), "1 min 00 s");
  EXPECT_EQ(HumanSeconds(200), "3 min 20 s");
  EXPECT_EQ(HumanSeconds(7500), "2 h 05 min");
  EXPECT_EQ(HumanSeconds(1e300), "very long");
}

TEST(HumanUnitsTest, LossKeepsItsWidth) {
  EXPECT_EQ(HumanLoss(2.302585), "2.3026");
  EXPECT_EQ(HumanLoss(0.1), "0.1000");
  EXPECT_EQ(HumanLoss(0.00012345), "0.000123");
  EXPECT_EQ(HumanLoss(12345.6), "1.23e+04");
}

TEST(HumanUnitsTest, PrintableKeepsTextAndDropsControls) {
  EXPECT_EQ(Printable("gr\xc3\xbc\xc3\x9f"
                      "e"),
            "gr\xc3\xbc\xc3\x9f"
            "e");
  EXPECT_EQ(Printable("a\x1b[31m\x7f\t"), "a?[31m? ");
  EXPECT_EQ(Printable("\xc2\x9b"
                      "2J"),
            "??2J");
  EXPECT_EQ(Printable("\xc2"), "?");
}

TEST(HumanUnitsTest, NothingInForeignWordsDrivesTheTerminalOrTurnsTheLine) {
  EXPECT_EQ(Printable("a\x1b[2Jb\nc"), "a?[2Jb c");
  EXPECT_EQ(Printable("pay \xe2\x80\xae"
                      "001\xe2\x80\xac and \xe2\x81\xa6x\xe2\x81\xa9"),
            "pay ?001? and ?x?");
  EXPECT_EQ(Printable("K\xc3\xb6ln \xe2\x82\xac 5"), "K\xc3\xb6ln \xe2\x82\xac 5");
}

}  // namespace
}  // namespace downpour
