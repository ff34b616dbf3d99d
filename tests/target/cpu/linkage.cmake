# No symbol of a file compiled for AVX2 or AVX-512 may be one that the linker merges with a baseline twin: it could then run
# on a machine without those instructions. Sanitizers add such symbols of their own.
find_program(TILEWRIGHT_NM nm)
if(TILEWRIGHT_NM AND NOT TILEWRIGHT_SANITIZE)
  foreach(isa avx2 avx512 avx512vnni)
    if(TARGET tw_kernels_${isa})
      add_test(NAME linkage_${isa} COMMAND sh -c "! \"$0\" -C \"$@\" | grep -E ' [WVu] '" ${TILEWRIGHT_NM}
                                           $<TARGET_OBJECTS:tw_kernels_${isa}> COMMAND_EXPAND_LISTS)
    endif()
  endforeach()
endif()
