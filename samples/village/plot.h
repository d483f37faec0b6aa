// Times of every villager as a picture.
#pragma once

#include <string>
#include <vector>

#include "village.h"

/** Writes an SVG with two charts, time to the first token and time between tokens of each villager. False: it cannot. */
bool write_plot(const std::string& path, const std::vector<Villager>& villagers);
