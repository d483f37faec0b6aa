/** @file platform.h
 *  Export and calling-convention macros. */
#ifndef BANTER_PLATFORM_H
#define BANTER_PLATFORM_H

#if defined(_WIN32)
#define BANTER_CALL __cdecl
#else
#define BANTER_CALL
#endif

/* BANTER_STATIC: link banter_static. BANTER_BUILDING: compile the library itself. */
#if defined(BANTER_STATIC)
#define BANTER_API
#elif defined(_WIN32)
#if defined(BANTER_BUILDING)
#define BANTER_API __declspec(dllexport)
#else
#define BANTER_API __declspec(dllimport)
#endif
#else
#define BANTER_API __attribute__((visibility("default")))
#endif

#endif
