#include "cluster/terminal.h"

#include <gtest/gtest.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <sstream>

#include "runtime/posix/fd.h"

namespace downpour {
namespace {

TEST(TalkTest, APipeGetsPlainLines) {
  std::ostringstream out;
  {
    Talk talk(out, TerminalTraits());
    talk.Progress("1 of 3");
    talk.Say("worker-0 died");
    talk.Progress("2 of 3");
  }
  EXPECT_EQ(out.str(), "1 of 3\nworker-0 died\n2 of 3\n");
}

TEST(TalkTest, ATerminalGetsOneLineDrawnOverUnderneathWhatIsSaid) {
  std::ostringstream out;
  {
    Talk talk(out, {.redraws = true, .color = false, .columns = 7});
    talk.Say("hello");
    talk.Progress("1 of 3 and more");
    talk.Say("worker-0 died");
    talk.Progress("2 of 3");
  }
  EXPECT_EQ(out.str(),
            "hello\n"
            "\r\x1b[K1 of 3"
            "\r\x1b[Kworker-0 died\n1 of 3"
            "\r\x1b[K2 of 3"
            "\n");
}

class ExamineTerminalTest : public testing::Test {
 protected:
  ExamineTerminalTest() {
    int ours = -1, theirs = -1;
    winsize size{.ws_row = 30, .ws_col = 100, .ws_xpixel = 0, .ws_ypixel = 0};
    EXPECT_EQ(openpty(&ours, &theirs, nullptr, nullptr, &size), 0);
    ours_ = UniqueFd(ours);
    terminal_ = UniqueFd(theirs);
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    read_end_ = UniqueFd(ends[0]);
    pipe_ = UniqueFd(ends[1]);
    setenv("TERM", "xterm", 1);
    unsetenv("NO_COLOR");
  }
  UniqueFd ours_, terminal_, read_end_, pipe_;
};

TEST_F(ExamineTerminalTest, ATerminalIsRedrawnColoredAndSized) {
  const TerminalTraits traits = ExamineTerminal(terminal_.get(), ColorChoice::kAuto);
  EXPECT_TRUE(traits.redraws);
  EXPECT_TRUE(traits.color);
  EXPECT_EQ(traits.columns, 100);
  EXPECT_EQ(traits.rows, 30);
  EXPECT_FALSE(ExamineTerminal(terminal_.get(), ColorChoice::kNever).color);
}

TEST_F(ExamineTerminalTest, NoColorTakesOnlyTheColor) {
  setenv("NO_COLOR", "1", 1);
  EXPECT_TRUE(ExamineTerminal(terminal_.get(), ColorChoice::kAuto).redraws);
  EXPECT_FALSE(ExamineTerminal(terminal_.get(), ColorChoice::kAuto).color);
  EXPECT_TRUE(ExamineTerminal(terminal_.get(), ColorChoice::kAlways).color);
}

TEST_F(ExamineTerminalTest, ADumbTerminalAndAPipeGetNoEscapes) {
  setenv("TERM", "dumb", 1);
  EXPECT_FALSE(ExamineTerminal(terminal_.get(), ColorChoice::kAuto).redraws);
  EXPECT_FALSE(ExamineTerminal(terminal_.get(), ColorChoice::kAuto).color);
  setenv("TERM", "xterm", 1);
  EXPECT_FALSE(ExamineTerminal(pipe_.get(), ColorChoice::kAuto).redraws);
  EXPECT_FALSE(ExamineTerminal(pipe_.get(), ColorChoice::kAuto).color);
  EXPECT_TRUE(ExamineTerminal(pipe_.get(), ColorChoice::kAlways).color);
}

TEST_F(ExamineTerminalTest, ProgressFollowsTheWindowsSize) {
  std::ostringstream out;
  Talk talk(out, ExamineTerminal(terminal_.get(), ColorChoice::kNever), terminal_.get());
  talk.Progress("1 of 3 and more");
  const winsize narrow{.ws_row = 30, .ws_col = 7, .ws_xpixel = 0, .ws_ypixel = 0};
  ASSERT_EQ(ioctl(terminal_.get(), TIOCSWINSZ, &narrow), 0);
  talk.Progress("2 of 3 and more");
  EXPECT_EQ(out.str(), "\r\x1b[K1 of 3 and more\r\x1b[K2 of 3");
}

TEST(ColorChoiceTest, ThreeWords) {
  EXPECT_EQ(ParseColorChoice("auto"), ColorChoice::kAuto);
  EXPECT_EQ(ParseColorChoice("always"), ColorChoice::kAlways);
  EXPECT_EQ(ParseColorChoice("never"), ColorChoice::kNever);
  EXPECT_EQ(ParseColorChoice("yes"), std::nullopt);
}

}  // namespace
}  // namespace downpour
