# The leaves of the CPU target (src/target/cpu/kernels): the same files compiled once an instruction set, each time with
# flags and a namespace (TW_ISA) of its own. Libraries of their own, because the flags must not reach anything else.
set(_kernels ${CMAKE_SOURCE_DIR}/src/target/cpu/kernels)
add_library(tw_kernels STATIC ${_kernels}/kernels.cpp ${_kernels}/lists_table.cpp ${_kernels}/vector_program.cpp)
target_include_directories(tw_kernels PUBLIC src)
target_link_libraries(tw_kernels PUBLIC tw_machine)

set(TILEWRIGHT_LEAVES contract lists window slide fold move detect interpreter integers table) # compiled once an instruction set
function(tilewright_kernels isa)
  add_library(tw_kernels_${isa} OBJECT)
  foreach(file ${TILEWRIGHT_LEAVES})
    target_sources(tw_kernels_${isa} PRIVATE ${_kernels}/${file}.cpp)
  endforeach()
  target_include_directories(tw_kernels_${isa} PRIVATE src)
  target_compile_definitions(tw_kernels_${isa} PRIVATE TW_ISA=${isa})
  target_compile_options(tw_kernels_${isa} PRIVATE -fno-exceptions -fno-strict-aliasing ${ARGN}
                         $<$<CXX_COMPILER_ID:Clang>:-Wno-pass-failed>) # loops that may become vectors, but need not
  if(isa STREQUAL avx512)
    target_compile_options(tw_kernels_${isa} PRIVATE -fno-sanitize=undefined) # g++ takes minutes; avx2 has the same source
  endif()
  target_sources(tw_kernels PRIVATE $<TARGET_OBJECTS:tw_kernels_${isa}>)
endfunction()

tilewright_kernels(base -DHWY_COMPILE_ONLY_SCALAR) # what the others are compared with
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  # HWY_DISABLE_PCLMUL_AES: Highway would ask for instructions that are neither in x86-64-v3 nor needed.
  tilewright_kernels(avx2 -march=x86-64-v3 -DHWY_DISABLE_PCLMUL_AES)
  tilewright_kernels(avx512 -march=x86-64-v4 -mprefer-vector-width=512 -DHWY_DISABLE_PCLMUL_AES)
  # The leaves over integers once more, with dot products of bytes.
  add_library(tw_kernels_avx512vnni OBJECT ${_kernels}/integers.cpp)
  target_include_directories(tw_kernels_avx512vnni PRIVATE src)
  target_compile_definitions(tw_kernels_avx512vnni PRIVATE TW_ISA=avx512vnni)
  target_compile_options(tw_kernels_avx512vnni PRIVATE -fno-exceptions -fno-strict-aliasing -march=x86-64-v4 -mavx512vnni
                         -mprefer-vector-width=512 -DHWY_DISABLE_PCLMUL_AES -fno-sanitize=undefined)
  target_sources(tw_kernels PRIVATE $<TARGET_OBJECTS:tw_kernels_avx512vnni>)
  # Contractions on the unit that multiplies tiles, of bf16 and of bytes.
  add_library(tw_kernels_avx512amx OBJECT ${_kernels}/split.cpp ${_kernels}/integers.cpp)
  target_include_directories(tw_kernels_avx512amx PRIVATE src)
  target_compile_definitions(tw_kernels_avx512amx PRIVATE TW_ISA=avx512amx)
  target_compile_options(tw_kernels_avx512amx PRIVATE -fno-exceptions -fno-strict-aliasing -march=x86-64-v4 -mavx512vnni -mamx-tile -mamx-bf16 -mamx-int8
                         -mprefer-vector-width=512 -DHWY_DISABLE_PCLMUL_AES -fno-sanitize=undefined)
  target_sources(tw_kernels PRIVATE $<TARGET_OBJECTS:tw_kernels_avx512amx>)
  target_compile_definitions(tw_kernels PRIVATE TILEWRIGHT_KERNELS_X86)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
  # TOOLCHAIN_MISS_SYS_AUXV_H: no run-time dispatch in Highway, which would ask for the optional crypto instructions.
  tilewright_kernels(neon -DTOOLCHAIN_MISS_SYS_AUXV_H)
  target_compile_definitions(tw_kernels PRIVATE TILEWRIGHT_KERNELS_NEON)
endif()

# The target's own sources may come later than its kernels: tests of the kernels need only this.
if(NOT TARGET tw_target_cpu)
  add_library(tw_target_cpu INTERFACE)
  target_link_libraries(tw_target_cpu INTERFACE tw_kernels)
else()
  target_link_libraries(tw_target_cpu PUBLIC tw_kernels)
endif()

add_executable(bench_kernels EXCLUDE_FROM_ALL ${CMAKE_SOURCE_DIR}/bench/kernels.cpp)
target_link_libraries(bench_kernels PRIVATE tw_kernels)
