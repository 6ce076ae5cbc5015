#include "job/variables.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace downpour {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

ModelSpec Mlp() {
  ModelSpec model;
  model.inputs = {{"image", {28, 28, 1}}};
  model.layers = {{"hidden", {"image"}, DenseSpec{256, Activation::kRelu, true}},
                  {"logits", {"hidden"}, DenseSpec{10, Activation::kNone, true}}};
  return model;
}

std::string ErrorOf(const ModelSpec& model) { return std::string(InferVariables(model).status().message()); }

TEST(Variables, AreInferredLayerByLayer) {
  const auto variables = InferVariables(Mlp());
  ASSERT_TRUE(variables.ok()) << variables.status();
  ASSERT_EQ(variables->size(), 4u);
  EXPECT_EQ((*variables)[0].name, "hidden/kernel");
  EXPECT_THAT((*variables)[0].shape, ElementsAre(784, 256));
  EXPECT_EQ((*variables)[0].initializer, Initializer::kHeUniform);
  EXPECT_EQ((*variables)[0].elements(), 784 * 256);
  EXPECT_EQ((*variables)[1].name, "hidden/bias");
  EXPECT_EQ((*variables)[1].initializer, Initializer::kZeros);
  EXPECT_EQ((*variables)[2].initializer, Initializer::kGlorotUniform);
  EXPECT_THAT((*variables)[3].shape, ElementsAre(10));
  EXPECT_EQ(InferOutputWidth(Mlp()).value(), 10);
}

TEST(Variables, DenseBeforeAReluLayerStartsAsWithItsOwnRelu) {
  ModelSpec model = Mlp();
  model.layers = {{"a", {"image"}, DenseSpec{8}},
                  {"b", {"a"}, ActivationSpec{Activation::kRelu}},
                  {"c", {"b"}, DropoutSpec{0.5}},
                  {"d", {"c"}, DenseSpec{10, Activation::kNone, false}}};
  const auto variables = InferVariables(model);
  ASSERT_TRUE(variables.ok()) << variables.status();
  ASSERT_EQ(variables->size(), 3u);
  EXPECT_EQ((*variables)[0].initializer, Initializer::kHeUniform);
  EXPECT_EQ((*variables)[2].name, "d/kernel");
  EXPECT_THAT((*variables)[2].shape, ElementsAre(8, 10));
}

TEST(Variables, GraphsJoinByAddAndConcat) {
  ModelSpec model = Mlp();
  model.layers = {{"a", {"image"}, DenseSpec{8}},
                  {"b", {"image"}, DenseSpec{8}},
                  {"sum", {"a", "b"}, AddSpec{}},
                  {"both", {"sum", "image"}, ConcatSpec{}},
                  {"out", {"both"}, DenseSpec{3}}};
  const ModelShapes shapes = InferShapes(model);
  ASSERT_TRUE(shapes.errors.empty()) << shapes.errors[0].what;
  EXPECT_THAT(shapes.outputs,
              ElementsAre(ElementsAre(8), ElementsAre(8), ElementsAre(8), ElementsAre(792), ElementsAre(3)));
}

TEST(Variables, DotYieldsANumberForEachTwoVectors) {
  ModelSpec model = Mlp();
  model.inputs = {{"rows", {26, 16}}};
  model.layers = {{"bottom", {"rows"}, DenseSpec{16}},       {"product", {"bottom", "bottom"}, MultiplySpec{}},
                  {"pairs", {"product", "rows"}, DotSpec{}}, {"own", {"rows"}, DotSpec{}},
                  {"both", {"pairs", "own"}, ConcatSpec{}},  {"out", {"both"}, DenseSpec{3}}};
  const ModelShapes shapes = InferShapes(model);
  ASSERT_TRUE(shapes.errors.empty()) << shapes.errors[0].what;
  EXPECT_THAT(shapes.outputs[2], ElementsAre(351));
  EXPECT_THAT(shapes.outputs[3], ElementsAre(325));
}

TEST(Variables, DotRefusesOtherWidthsAndTooFewOrTooManyVectors) {
  ModelSpec model = Mlp();
  model.inputs = {{"rows", {26, 16}}, {"image", {2, 2, 16}}, {"many", {129, 2}}, {"most", {128, 2}}};
  const auto error_of = [&](std::vector<std::string> from) {
    model.layers = {{"pairs", std::move(from), DotSpec{}}};
    return ErrorOf(model);
  };
  model.layers = {{"a", {"rows"}, DenseSpec{8}}, {"pairs", {"rows", "a"}, DotSpec{}}};
  EXPECT_THAT(ErrorOf(model), HasSubstr("but a is of shape [8], beside rows of [26, 16]"));
  model.layers = {{"a", {"rows"}, DenseSpec{8}}, {"pairs", {"a"}, DotSpec{}}};
  EXPECT_THAT(ErrorOf(model), HasSubstr("layer pairs: needs 2 to 128 vectors, but reads one"));
  EXPECT_THAT(error_of({"image"}), HasSubstr("but image is of shape [2, 2, 16]"));
  EXPECT_THAT(error_of({"many"}), HasSubstr("but reads more than 128"));
  EXPECT_THAT(error_of({"most", "most"}), HasSubstr("but reads more than 128"));
  model.layers = {{"pairs", {"most"}, DotSpec{}}};
  EXPECT_THAT(InferShapes(model).outputs[0], ElementsAre(8128));
}

TEST(Variables, EveryMisfitIsReportedOnceAtItsLayer) {
  ModelSpec model = Mlp();
  model.layers = {{"a", {"image"}, DenseSpec{8}}, {"b", {"imgae"}, DenseSpec{9}},
                  {"c", {"b"}, DenseSpec{9}},     {"sum", {"a", "image"}, AddSpec{}},
                  {"one", {"sum"}, ConcatSpec{}}, {"two", {"a", "image"}, DenseSpec{4}},
                  {"out", {"two"}, DenseSpec{3}}};
  const ModelShapes shapes = InferShapes(model);
  std::vector<size_t> layers;
  for (const auto& error : shapes.errors) layers.push_back(error.layer);
  EXPECT_THAT(layers, ElementsAre(1, 3, 4, 5, 2, 4));  // the last two are read by nobody
  EXPECT_THAT(ErrorOf(model), HasSubstr("layer b: reads imgae"));
  EXPECT_EQ(shapes.errors[0].remedy, "did you mean image?");
  EXPECT_EQ(shapes.errors[3].what, "reads exactly one layer");
  EXPECT_EQ(shapes.errors[3].remedy, "join several with concat or add first");
}

TEST(Variables, SizesThatOverflowAreRefused) {
  ModelSpec model = Mlp();
  model.layers[0].op = DenseSpec{int64_t{1} << 62};
  EXPECT_THAT(ErrorOf(model), HasSubstr("layer hidden: with 4611686018427387904 units"));
  model = Mlp();
  model.inputs[0].shape = {int64_t{1} << 32, int64_t{1} << 32};
  EXPECT_THAT(ErrorOf(model), HasSubstr("model: input image"));
  model = Mlp();
  model.layers.clear();
  model.layers.push_back({"a0", {"image"}, DenseSpec{1 << 17}});
  model.layers.push_back({"a1", {"a0"}, DenseSpec{1 << 16}});
  model.layers.push_back({"a2", {"a1"}, DenseSpec{1 << 17}});  // the sum exceeds what each alone does not
  EXPECT_THAT(ErrorOf(model), HasSubstr("layer a2: with 131072 units"));
}

TEST(Variables, DegenerateModelsAreRefused) {
  ModelSpec model = Mlp();
  model.layers.clear();
  EXPECT_THAT(ErrorOf(model), HasSubstr("no layers"));
  model = Mlp();
  model.layers[1].op = DenseSpec{1};
  EXPECT_THAT(ErrorOf(model), HasSubstr("two values or more"));
  model.loss = Loss::kMeanSquaredError;
  EXPECT_TRUE(InferVariables(model).ok());
  model = Mlp();
  model.inputs.push_back({"spare", {4}});
  EXPECT_THAT(ErrorOf(model), HasSubstr("no layer reads input spare"));
  model = Mlp();
  model.layers = {{"only", {"image"}, ActivationSpec{}}};
  EXPECT_THAT(ErrorOf(model), HasSubstr("no layer has parameters to train"));
  model = Mlp();
  model.layers[1].name = "hidden";
  EXPECT_THAT(ErrorOf(model), HasSubstr("same name"));
  model = Mlp();
  model.layers[0].op = DenseSpec{0};
  EXPECT_FALSE(InferVariables(model).ok());
}

}  // namespace
}  // namespace downpour
