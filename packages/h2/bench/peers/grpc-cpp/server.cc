// A server that decodes a Predict request and answers one float: what gRPC C++'s callback API costs a call.
#include <cstdio>
#include <cstring>
#include <string>

#include <grpcpp/grpcpp.h>

#include "dlrm/serving/v1/prediction.grpc.pb.h"

namespace pb = dlrm::serving::v1;

class Trivial final : public pb::PredictionService::CallbackService {
  grpc::ServerUnaryReactor* Predict(grpc::CallbackServerContext* context, const pb::PredictRequest* request,
                                    pb::PredictResponse* response) override {
    const float count = static_cast<float>(request->inputs_size());
    pb::HostBuffer& scores = (*response->mutable_outputs())["scores"];
    scores.set_data_type(pb::DATA_TYPE_FLOAT32);
    scores.add_shape(1);
    scores.set_data(std::string(reinterpret_cast<const char*>(&count), sizeof count));
    auto* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
};

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: server PORT\n");
    return 2;
  }
  Trivial service;
  grpc::ServerBuilder builder;
  builder.SetMaxReceiveMessageSize(64 << 20);
  builder.AddListeningPort(std::string("127.0.0.1:") + argv[1], grpc::InsecureServerCredentials());
  builder.RegisterService(&service);
  auto server = builder.BuildAndStart();
  if (server == nullptr) return 1;
  std::printf("listening on %s\n", argv[1]);
  std::fflush(stdout);
  server->Wait();
}
